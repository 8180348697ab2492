/**
 * The egress link of one sandbox: its authority and placeholders, the variables for programs inside, and the
 * rules for the egress process.
 */
import { Readable } from 'node:stream'
import { baseKind } from '../../bases/bases.ts'
import { hostsOf } from '../../core/group/group.ts'
import type { Guest, GuestTrust } from '../../core/guest.ts'
import type { NetworkLevel, NetworkSpec, SandboxLink } from '../../core/network.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { BoundSecret, Secret } from '../../core/secret.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import { insideError } from '../../guest/guest-error.ts'
import { readAddress } from '../../policy/address.ts'
import type { NetworkPolicy } from '../../policy/decide.ts'
import { parseRule, type Rule } from '../../policy/rule.ts'
import { newPlaceholder } from '../../secrets/placeholder.ts'
import type { SealedBox } from '../../secrets/sealed-box.ts'
import type { StoredSecret } from '../../store/secrets.ts'
import { ignore } from '../../telemetry/log.ts'
import { trustStore } from '../../util/x509/trust-store.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'
import type { LinkRules } from './network-parts.ts'
import { rulesOf } from './network-spec.ts'

/** podd's HTTP and SOCKS5 proxy. */
const DOOR = 'http://127.0.0.1:61080'
const BUNDLE = '/run/agentpod/ca-bundle.pem'
const JAVA_STORE = '/run/agentpod/truststore.jks'
const NO_LEVEL: NetworkLevel = { level: 'none' }

/** Programs differ in the variable that they read, and some read one letter case only. */
const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']
const TRUST_VARIABLES = [
  'SSL_CERT_FILE',
  'NODE_EXTRA_CA_CERTS',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'PIP_CERT',
  'GIT_SSL_CAINFO',
  'CARGO_HTTP_CAINFO',
  'AWS_CA_BUNDLE',
  'NIX_SSL_CERT_FILE',
  'DENO_CERT',
  'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'HTTPLIB2_CA_CERTS',
]

/** SECURITY: SE-09. Every sandbox has its own authority and placeholders; a fork or restore gets new ones. */
export function newLink(ctx: Context, sandboxId: string, { secrets }: NetworkSpec): SandboxLink | undefined {
  const { network } = ctx
  if (!network) return undefined
  const { cert, key } = ctx.authorities.take()
  return {
    ...NO_LEVEL,
    authority: { cert, sealedKey: network.box.seal(key, authorityPurpose(sandboxId)) },
    placeholders: Object.fromEntries(secrets.map((name) => [name, newPlaceholder(ctx.random)])),
  }
}

/** The id of a sandbox or of a snapshot. */
function authorityPurpose(id: string): string {
  return `authority ${id}`
}

/** What a snapshot with memory keeps of the link of its sandbox. */
export function linkForSnapshot(
  { network }: Context,
  { id, link }: Sandbox,
  snapshotId: string,
): Pick<SandboxLink, 'authority' | 'placeholders'> | undefined {
  return network && link && resealed(network.box, link, id, snapshotId)
}

/**
 * The link of a sandbox that continues the processes of a snapshot. They hold the placeholders of their
 * sandbox, and trust its authority. That widens nothing: a placeholder works only for the sandbox that it
 * belongs to, and its connections identify it.
 */
export function continuedLink(
  ctx: Context,
  sandboxId: string,
  spec: NetworkSpec,
  { id, memory }: Snapshot,
): SandboxLink | undefined {
  const fresh = newLink(ctx, sandboxId, spec)
  if (!fresh || !ctx.network || !memory?.link) return fresh
  const { authority, placeholders } = resealed(ctx.network.box, memory.link, id, sandboxId)
  const own = Object.fromEntries(
    spec.secrets.map((name) => [name, placeholders[name] ?? fresh.placeholders[name] ?? '']),
  )
  return { ...NO_LEVEL, authority: authority ?? fresh.authority, placeholders: own }
}

type Kept = Pick<SandboxLink, 'authority' | 'placeholders'>

function resealed(box: SealedBox, { authority, placeholders }: Kept, from: string, to: string): Kept {
  if (!authority) return { authority, placeholders }
  const key = box.open(authority.sealedKey, authorityPurpose(from))
  return { authority: { cert: authority.cert, sealedKey: box.seal(key, authorityPurpose(to)) }, placeholders }
}

export function secretPurpose({ owner, name, version }: Secret): string {
  return `secret ${owner} ${name} ${version}`
}

/** The variables that programs inside need to use the network. */
export function linkVariables(ctx: Context, sandbox: Sandbox): Record<string, string> {
  const { link, owner } = sandbox
  if (!link || link.level === 'none') return {}
  const all = (names: readonly string[], value: string): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, value]))
  return {
    ...all(PROXY_VARIABLES, DOOR),
    ...all(['NO_PROXY', 'no_proxy'], 'localhost,127.0.0.1,::1'),
    ...(link.authority && all(TRUST_VARIABLES, BUNDLE)),
    ...(opensTls(sandbox) && { JAVA_TOOL_OPTIONS: `-Djavax.net.ssl.trustStore=${JAVA_STORE}` }),
    ...Object.fromEntries(
      Object.entries(link.placeholders).flatMap(([name, placeholder]) => {
        const secret = ctx.network?.secrets.get(owner, name)
        return secret ? [[secret.variable, placeholder]] : []
      }),
    ),
  }
}

/**
 * Whether the egress process opens TLS of this sandbox, so that programs see certificates of the sandbox's
 * own authority.
 */
function opensTls({ link, spec: { network } }: Sandbox): boolean {
  if (!link?.authority || link.level === 'none') return false
  const isAboutRequests = [...network.rules, ...network.denied].some(({ methods, paths }) => methods ?? paths)
  return (
    isAboutRequests ||
    network.secrets.length > 0 ||
    network.intercept === 'all' ||
    network.headers !== undefined
  )
}

/**
 * Java reads no PEM. If it may see the sandbox's authority, it gets a key store; it reports on stderr that it
 * found one.
 */
export async function writeJavaTrust(ctx: Context, sandbox: Sandbox, guest: Guest): Promise<void> {
  const ca = sandbox.link?.authority?.cert
  if (!ctx.network || ca === undefined || !opensTls(sandbox)) return
  const store = trustStore(`${ctx.network.hostRoots()}\n${ca}`, ctx.clock.now())
  const signal = AbortSignal.timeout(CALL.timeoutMs)
  try {
    await guest.files.write(JAVA_STORE, Readable.from([store], { objectMode: false }), {
      user: 'root',
      signal,
    })
  } catch (error) {
    const failure = insideError(error, signal)
    // A full disk must not keep a sandbox from starting. Java itself reports a missing store.
    if (failure.reason !== 'inside.failed') throw failure
    ignore(ctx.log, failure, `${sandbox.id} has no trust store for Java`)
  }
}

/** A base with the machine's own certificates already has the system's roots. */
export function trustOf(ctx: Context, { link, spec }: Sandbox): GuestTrust | undefined {
  if (!link?.authority || !ctx.network || link.level === 'none') return undefined
  const isThere = baseKind(spec.environment.base).system.trust === 'machine' && ctx.network.isSystemBundle
  const roots = isThere ? '' : ctx.network.hostRoots()
  return { ca: link.authority.cert, roots }
}

export function openLink(ctx: Context, sandbox: Sandbox): void {
  try {
    const { handle } = sandbox
    const door = handle && ctx.providers.of(sandbox).egress?.door(handle)
    const rules = door && linkRules(ctx, sandbox)
    if (rules) ctx.network?.egress.open(rules, door)
  } catch (error) {
    // SECURITY: I7. Without a link nothing leaves the sandbox. An old link would continue with outdated
    // rules.
    closeLink(ctx, sandbox.id)
    ignore(ctx.log, error, `closed the egress link of ${sandbox.id}`)
  }
}

/**
 * Sends the current rules of a running or paused sandbox to the egress process. Other sandboxes get them when
 * they start.
 */
export function refreshLink(ctx: Context, sandbox: Sandbox): void {
  if (ctx.connections.has(sandbox.id) || ctx.pausedConnections.has(sandbox.id)) openLink(ctx, sandbox)
}

export function closeLink(ctx: Context, id: string): void {
  ctx.network?.egress.close(id)
}

function linkRules(ctx: Context, sandbox: Sandbox): LinkRules | undefined {
  const { network } = ctx
  const { id, link, spec } = sandbox
  if (!network || !link) return undefined
  const secrets = boundSecrets(ctx, sandbox)
  const { intercept, headers, cache, meter } = spec.network
  const { bandwidthBytes } = spec.resources
  const group = ctx.groupRegistry.ofSandbox(id)
  return {
    sandbox: id,
    policy: { ...sandboxPolicy(spec.network, secrets), ...(group && { members: hostsOf(group) }) },
    secrets,
    intercept,
    ...(headers && { headers }),
    ...(bandwidthBytes !== undefined && { bandwidthBytes }),
    ...(cache && { cache }),
    ...(meter && { meter }),
    ...(link.authority && {
      authority: {
        cert: link.authority.cert,
        key: network.box.open(link.authority.sealedKey, authorityPurpose(id)),
      },
    }),
  }
}

/** The secrets that still exist. A placeholder of a removed secret no longer works. */
function boundSecrets(ctx: Context, { link, owner }: Sandbox): BoundSecret[] {
  const { network } = ctx
  if (!network || !link) return []
  return Object.entries(link.placeholders).flatMap(([name, placeholder]) => {
    const stored = network.secrets.get(owner, name)
    return stored ? [{ name, placeholder, value: open(ctx, stored), slot: stored.slot }] : []
  })
}

function open({ network }: Context, stored: StoredSecret): string {
  return network?.box.open(stored.sealed, secretPurpose(stored)) ?? ''
}

/** A secret allows the host that it is for; it could not be used otherwise. */
export function sandboxPolicy(
  spec: NetworkSpec,
  secrets: readonly Pick<BoundSecret, 'name' | 'slot'>[],
): NetworkPolicy {
  const { rules, denied } = rulesOf(spec)
  const fromSecrets = secrets.flatMap(rulesOfSecret)
  const { addresses } = spec
  return { mode: spec.mode, rules: [...rules, ...fromSecrets], denied, ...(addresses && { addresses }) }
}

/** The rules that a secret adds. Only a person allows an address; a secret never does. */
export function rulesOfSecret({ name, slot }: Pick<BoundSecret, 'name' | 'slot'>): Rule[] {
  const { port, methods, paths, budget } = slot
  const names = slot.hosts.filter((host) => readAddress(host) === undefined)
  return names.map((host) =>
    parseRule({ host, ports: [port], ...pick({ methods, paths, budget }) }, `secret ${name}`),
  )
}

function pick(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
