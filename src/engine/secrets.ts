/** Secrets of an owner: set, listed, rotated and removed. Nobody can read a value back. */
import { AgentPodError, invalid } from '../core/error.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { Secret, SecretScheme, SecretSlot } from '../core/secret.ts'
import { formatAddress, isDialable, readAddress } from '../policy/address.ts'
import { parseHostName } from '../policy/host-name.ts'
import { parseRule } from '../policy/rule.ts'
import type { StoredSecret } from '../store/secrets.ts'
import type { Context } from './context.ts'
import { openedBy, refreshLink, secretPurpose } from './link.ts'
import { checkCap } from './network.ts'
import type { Desk } from './networks.ts'
import type { NetworkParts } from './way-out.ts'

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
/** Shorter ones would be found in text that has nothing to do with them, and covered there. */
const SHORTEST = 8
const LONGEST = 16 * 1024
const MOST_SECRETS = 256
/** Headers that say where a request goes, how long it is, or what becomes of the connection. */
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

/** `permission_denied` where the host is beyond what the owner's sandboxes may reach: a secret opens its host. */
function setSecret(ctx: Context, { owner, network: cap }: Principal, request: SecretRequest): Secret {
  const { secrets, box } = needNetwork(ctx)
  const { name } = request
  if (!NAME.test(name))
    throw invalid('secret.name', 'a secret’s name begins with a letter; letters, digits, _ . and - follow')
  const before = secrets.get(owner, name)
  if (!before && secrets.of(owner).length >= MOST_SECRETS)
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'secret.too_many',
      message: `there are ${MOST_SECRETS} secrets, which is all one owner may have`,
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
  checkCap(openedBy(secret), cap)
  checkValue(request.value)
  secrets.put({ ...secret, sealed: box.seal(request.value, secretPurpose(secret)) })
  refresh(ctx, owner, name)
  return secret
}

/** A new value in the same slot; sandboxes that hold a placeholder of it go on with the new one. */
function rotateSecret(ctx: Context, owner: string, name: string, value: string): Secret {
  const { secrets, box } = needNetwork(ctx)
  const before = needSecret(ctx, owner, name)
  checkValue(value)
  const { sealed: _, ...secret } = { ...before, version: before.version + 1, rotatedAt: ctx.clock.now() }
  secrets.put({ ...secret, sealed: box.seal(value, secretPurpose(secret)) })
  refresh(ctx, owner, name)
  return secret
}

/** Placeholders of it are worth nothing from now on. */
function removeSecret(ctx: Context, owner: string, name: string): Secret {
  const { secrets } = needNetwork(ctx)
  const { sealed: _, ...secret } = needSecret(ctx, owner, name)
  secrets.remove(owner, name)
  refresh(ctx, owner, name)
  return secret
}

function listSecrets(ctx: Context, owner: string): Secret[] {
  return needNetwork(ctx)
    .secrets.of(owner)
    .map(({ sealed: _, ...secret }) => secret)
}

/** Tells the way out of every living sandbox that holds a placeholder of it. */
function refresh(ctx: Context, owner: string, name: string): void {
  for (const sandbox of ctx.ledger.livingOf(owner)) {
    if (sandbox.link?.placeholders[name] !== undefined) refreshLink(ctx, sandbox)
  }
}

function needNetwork({ network }: Context): NetworkParts {
  if (network) return network
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'network.none',
    message: 'sandboxes have no network here',
  })
}

function needSecret(ctx: Context, owner: string, name: string): StoredSecret {
  const found = needNetwork(ctx).secrets.get(owner, name)
  if (found) return found
  throw unknownSecret(name)
}

/** `not_found` names the first one that the owner does not have. */
export function needSecrets(ctx: Context, owner: string, names: readonly string[]): void {
  const missing = names.find((name) => !ctx.network?.secrets.get(owner, name))
  if (missing !== undefined) throw unknownSecret(missing)
}

function unknownSecret(name: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'secret.unknown',
    message: `there is no secret ${JSON.stringify(name)}`,
    hint: `\`agentpod secret ls\` shows those that there are, \`agentpod secret set ${name} --host HOST\` makes it`,
  })
}

function variableOf({ name, variable }: SecretRequest): string {
  const wanted = variable ?? name.replaceAll(/[.-]/g, '_')
  if (VARIABLE.test(wanted)) return wanted
  throw invalid('secret.variable', 'the name of a variable is letters, digits and underscores')
}

/** SECURITY: SE-05. A value with a line end in it would be a second header. */
function checkValue(value: string): void {
  if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value))
    throw invalid(
      'secret.value',
      'a secret is one line of printable characters without space at its ends',
      'is there a line end too many? `printf %s "$KEY" | agentpod secret set ...` sends none',
    )
  if (value.length < SHORTEST || value.length > LONGEST)
    throw invalid('secret.value', `a secret has ${SHORTEST} to ${LONGEST} characters`)
}

/** SECURITY: SE-02. Exact hosts only: below a star somebody else may have a name. */
function slotOf(request: SecretRequest): SecretSlot {
  const header = (request.header ?? 'authorization').toLowerCase()
  if (!HEADER.test(header) || NO_SLOT.includes(header) || header.startsWith('proxy-'))
    throw invalid('secret.header', `${JSON.stringify(header)} cannot hold a secret`)
  if (request.hosts.length === 0)
    throw invalid('secret.host', 'a secret is for at least one host', 'name it with --host')
  if (request.hosts.some((host) => host.includes('*')))
    throw invalid('secret.host', 'a secret is for exact hosts', 'name each host with --host')
  const port = request.port ?? 443
  const { methods, paths, budget } = request
  // The rule that the secret will open says whether all of it makes sense.
  const hosts = request.hosts.map(slotHost)
  const names = hosts.filter((host) => readAddress(host) === undefined)
  if (names.length < hosts.length && (methods ?? paths ?? budget) !== undefined)
    throw invalid(
      'secret.host',
      'methods, paths and budgets of a secret need a host with a name',
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

/** A name; or an address in its one form, as the certificate of a server in a private network may have it. */
function slotHost(text: string): string {
  const address = readAddress(text)
  if (!address) return parseHostName(text)
  if (!isDialable(address, { allowPrivate: true }))
    throw invalid(
      'secret.host',
      `no sandbox reaches ${formatAddress(address)}`,
      'name a host that one reaches',
    )
  return formatAddress(address)
}

function schemeOf(header: string, asked: SecretScheme | undefined): SecretScheme {
  const scheme =
    asked ?? (header === 'authorization' ? { kind: 'prefix', prefix: 'Bearer' } : { kind: 'bare' })
  if (scheme.kind === 'prefix' && !/^[A-Za-z][A-Za-z0-9_-]{0,31}$/.test(scheme.prefix))
    throw invalid('secret.scheme', 'the word before a secret is letters and digits, like Bearer')
  if (scheme.kind === 'basic' && !/^[\x20-\x39\x3b-\x7e]{0,128}$/.test(scheme.user))
    throw invalid('secret.scheme', 'the user of Basic authorization is printable and has no colon')
  if (scheme.kind === 'basic' && header !== 'authorization')
    throw invalid('secret.scheme', 'Basic authorization stands in the header Authorization')
  return scheme
}

/** SECURITY: no call gives a value out. */
export class Secrets {
  readonly #desk: Desk

  constructor(desk: Desk) {
    this.#desk = desk
  }

  set(request: SecretRequest, who: Principal = LOCAL): Secret {
    const secret = setSecret(this.#desk.ctx, who, request)
    this.#desk.audit(who.owner, 'secret.set', secret.name, { version: secret.version })
    return secret
  }

  list(who: Principal = LOCAL): Secret[] {
    return listSecrets(this.#desk.ctx, who.owner)
  }

  /** `not_found` names the first one that there is not. */
  need(names: readonly string[], who: Principal = LOCAL): void {
    needSecrets(this.#desk.ctx, who.owner, names)
  }

  rotate(name: string, value: string, who: Principal = LOCAL): Secret {
    const secret = rotateSecret(this.#desk.ctx, who.owner, name, value)
    this.#desk.audit(who.owner, 'secret.rotate', secret.name, { version: secret.version })
    return secret
  }

  remove(name: string, who: Principal = LOCAL): Secret {
    const secret = removeSecret(this.#desk.ctx, who.owner, name)
    this.#desk.audit(who.owner, 'secret.remove', secret.name, {})
    return secret
  }
}
