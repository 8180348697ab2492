/** Secrets of an owner: set, listed, rotated and removed. A value can never be read back. */
import { AgentPodError, invalid } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { Secret, SecretScheme, SecretSlot } from '../../core/secret.ts'
import { formatAddress, isDialable, readAddress } from '../../policy/address.ts'
import { parseHostName } from '../../policy/host-name.ts'
import { parseRule } from '../../policy/rule.ts'
import type { StoredSecret } from '../../store/secrets.ts'
import type { Context } from '../context.ts'
import { recordAudit } from '../record-audit.ts'
import { refreshLink, rulesOfSecret, secretPurpose } from './egress-link.ts'
import type { NetworkParts } from './network-parts.ts'
import { checkCap } from './network-spec.ts'

export interface SecretRequest {
  readonly name: string
  readonly value: string
  readonly variable?: string | undefined
  readonly hosts: readonly string[]
  readonly port?: number | undefined
  readonly header?: string | undefined
  readonly scheme?: SecretScheme | undefined
  readonly methods?: readonly string[] | undefined
  readonly paths?: readonly string[] | undefined
  readonly budget?: SecretSlot['budget']
}

const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
const HEADER = /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/
/** Shorter values would match unrelated text, which would then be masked. */
const SHORTEST = 8
const LONGEST = 16 * 1024
const MOST_SECRETS = 256
/** Headers that control routing, length or the connection. */
const NO_SLOT = [
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'upgrade',
  'te',
  'trailer',
  'expect',
]

/**
 * `permission_denied` if the host is beyond what the owner's sandboxes may reach, because a secret allows its
 * host.
 */
function setSecret(ctx: Context, { owner, network: cap }: Principal, request: SecretRequest): Secret {
  const { secrets, box } = requireNetwork(ctx)
  const { name } = request
  if (!NAME.test(name))
    throw invalid(
      'secret.name',
      'the name of a secret starts with a letter and contains letters, digits, _ . and -',
    )
  const before = secrets.get(owner, name)
  if (!before && secrets.of(owner).length >= MOST_SECRETS)
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'secret.too_many',
      message: `this owner has ${MOST_SECRETS} secrets, which is the limit`,
    })
  const now = ctx.clock.now()
  const secret: Secret = {
    name,
    owner,
    variable: variableOf(request),
    slot: slotOf(request),
    version: (before?.version ?? 0) + 1,
    createdAt: before?.createdAt ?? now,
    rotatedAt: now,
  }
  checkCap(rulesOfSecret(secret), cap)
  checkValue(request.value)
  secrets.put({ ...secret, sealed: box.seal(request.value, secretPurpose(secret)) })
  refresh(ctx, owner, name)
  return secret
}

/** Replaces the value. Sandboxes with a placeholder of it use the new value from now on. */
function rotateSecret(ctx: Context, owner: string, name: string, value: string): Secret {
  const { secrets, box } = requireNetwork(ctx)
  const before = requireSecret(ctx, owner, name)
  checkValue(value)
  const { sealed: _, ...secret } = { ...before, version: before.version + 1, rotatedAt: ctx.clock.now() }
  secrets.put({ ...secret, sealed: box.seal(value, secretPurpose(secret)) })
  refresh(ctx, owner, name)
  return secret
}

/** Placeholders of it stop working at once. */
function removeSecret(ctx: Context, owner: string, name: string): Secret {
  const { secrets } = requireNetwork(ctx)
  const { sealed: _, ...secret } = requireSecret(ctx, owner, name)
  secrets.remove(owner, name)
  refresh(ctx, owner, name)
  return secret
}

function listSecrets(ctx: Context, owner: string): Secret[] {
  return requireNetwork(ctx)
    .secrets.of(owner)
    .map(({ sealed: _, ...secret }) => secret)
}

/** Updates the egress link of every sandbox that holds a placeholder of it. */
function refresh(ctx: Context, owner: string, name: string): void {
  for (const sandbox of ctx.registry.existingOf(owner)) {
    if (sandbox.link?.placeholders[name] !== undefined) refreshLink(ctx, sandbox)
  }
}

function requireNetwork({ network }: Context): NetworkParts {
  if (network) return network
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'network.none',
    message: 'this server has no network for sandboxes',
  })
}

function requireSecret(ctx: Context, owner: string, name: string): StoredSecret {
  const found = requireNetwork(ctx).secrets.get(owner, name)
  if (found) return found
  throw unknownSecret(name)
}

/** `not_found` names the first secret that the owner does not have. */
export function requireSecrets(ctx: Context, owner: string, names: readonly string[]): void {
  const missing = names.find((name) => !ctx.network?.secrets.get(owner, name))
  if (missing !== undefined) throw unknownSecret(missing)
}

function unknownSecret(name: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'secret.unknown',
    message: `there is no secret ${JSON.stringify(name)}`,
    hint: `\`agentpod secret ls\` lists secrets; \`agentpod secret set ${name} --host HOST\` sets this one`,
  })
}

function variableOf({ name, variable }: SecretRequest): string {
  const wanted = variable ?? name.replaceAll(/[.-]/g, '_')
  if (VARIABLE.test(wanted)) return wanted
  throw invalid('secret.variable', 'the name of a variable contains only letters, digits and underscores')
}

/** SECURITY: SE-05. A line break in a value would start a second header. */
function checkValue(value: string): void {
  if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value))
    throw invalid(
      'secret.value',
      'a secret must be one line of printable characters, without spaces at its ends',
      'a trailing line break is a common cause; `printf %s "$KEY" | agentpod secret set ...` sends none',
    )
  if (value.length < SHORTEST || value.length > LONGEST)
    throw invalid('secret.value', `a secret must have ${SHORTEST} to ${LONGEST} characters`)
}

/** SECURITY: SE-02. Exact hosts only: somebody else may own a name below a wildcard. */
function slotOf(request: SecretRequest): SecretSlot {
  const header = (request.header ?? 'authorization').toLowerCase()
  if (!HEADER.test(header) || NO_SLOT.includes(header) || header.startsWith('proxy-'))
    throw invalid('secret.header', `${JSON.stringify(header)} cannot hold a secret`)
  if (request.hosts.length === 0)
    throw invalid('secret.host', 'a secret needs at least one host', 'add it with --host')
  if (request.hosts.some((host) => host.includes('*')))
    throw invalid(
      'secret.host',
      'a secret needs exact hosts, without a wildcard',
      'name each host with --host',
    )
  const port = request.port ?? 443
  const { methods, paths, budget } = request
  // Parsing the rule of the secret checks methods, paths and budget.
  const hosts = request.hosts.map(slotHost)
  const names = hosts.filter((host) => readAddress(host) === undefined)
  if (names.length < hosts.length && (methods ?? paths ?? budget) !== undefined)
    throw invalid(
      'secret.host',
      'methods, paths and budgets of a secret need a host name, not an address',
      'give the server a name in your DNS or in /etc/hosts',
    )
  const rules = names.map((host) => {
    const present = Object.entries({ methods, paths, budget }).filter(([, value]) => value !== undefined)
    return parseRule({ host, ports: [port], ...Object.fromEntries(present) }, `secret ${request.name}`)
  })
  const [first] = rules
  return {
    hosts,
    port,
    header,
    scheme: schemeOf(header, request.scheme),
    ...(first?.methods && { methods: first.methods }),
    ...(first?.paths && { paths: first.paths }),
    ...(budget && { budget }),
  }
}

/**
 * A host name, or an address in its canonical form, for servers in a private network whose certificate has
 * one.
 */
function slotHost(text: string): string {
  const address = readAddress(text)
  if (!address) return parseHostName(text)
  if (!isDialable(address, { allowPrivate: true }))
    throw invalid(
      'secret.host',
      `no sandbox can reach ${formatAddress(address)}`,
      'name a host that sandboxes can reach',
    )
  return formatAddress(address)
}

function schemeOf(header: string, asked: SecretScheme | undefined): SecretScheme {
  const scheme =
    asked ?? (header === 'authorization' ? { kind: 'prefix', prefix: 'Bearer' } : { kind: 'bare' })
  if (scheme.kind === 'prefix' && !/^[A-Za-z][A-Za-z0-9_-]{0,31}$/.test(scheme.prefix))
    throw invalid(
      'secret.scheme',
      'the scheme before a secret contains letters, digits, _ and -, like Bearer',
    )
  if (scheme.kind === 'basic' && !/^[\x20-\x39\x3b-\x7e]{0,128}$/.test(scheme.user))
    throw invalid(
      'secret.scheme',
      'the user of Basic authorization must be printable and must not contain a colon',
    )
  if (scheme.kind === 'basic' && header !== 'authorization')
    throw invalid('secret.scheme', 'Basic authorization needs the header Authorization')
  return scheme
}

/** SECURITY: no operation returns a value. */
export class SecretOperations {
  readonly #ctx: Context

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  set(request: SecretRequest, who: Principal): Secret {
    return this.#audited(setSecret(this.#ctx, who, request), 'secret.set', who)
  }

  list(who: Principal): Secret[] {
    return listSecrets(this.#ctx, who.owner)
  }

  /** `not_found` names the first secret that the caller does not have. */
  require(names: readonly string[], who: Principal): void {
    requireSecrets(this.#ctx, who.owner, names)
  }

  rotate(name: string, value: string, who: Principal): Secret {
    return this.#audited(rotateSecret(this.#ctx, who.owner, name, value), 'secret.rotate', who)
  }

  remove(name: string, who: Principal): Secret {
    const secret = removeSecret(this.#ctx, who.owner, name)
    recordAudit(this.#ctx, who, 'secret.remove', { subject: secret.name })
    return secret
  }

  #audited(secret: Secret, action: 'secret.set' | 'secret.rotate', who: Principal): Secret {
    recordAudit(this.#ctx, who, action, { subject: secret.name, data: { version: secret.version } })
    return secret
  }
}
