/** What a front door may ask about the network of a sandbox. */
import { invalid } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { NetCounts, NetRecord, NetworkCap, NetworkSpec } from '../core/network.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { type Decision, decide } from '../policy/decide.ts'
import { explain } from '../policy/explain.ts'
import { hostRefused, readHostName } from '../policy/host-name.ts'
import { describeRule } from '../policy/rule.ts'
import { ignore } from '../telemetry/log.ts'
import type { Context } from './context.ts'
import { policyOf, refreshLink } from './link.ts'
import { needSandbox } from './need.ts'
import { changeNetwork, type NetworkChange, type NetworkRequest, resolveNetwork } from './network.ts'

/** Reaches live connections within five seconds. */
export function setNetwork(
  ctx: Context,
  id: SandboxId,
  change: NetworkChange,
  cap: NetworkCap | undefined,
): Promise<Sandbox> {
  return put(ctx, id, (before) => changeNetwork(before, change, cap))
}

export function replaceNetwork(
  ctx: Context,
  id: SandboxId,
  request: NetworkRequest,
  cap: NetworkCap | undefined,
): Promise<Sandbox> {
  return put(ctx, id, ({ secrets, intercept, meter }) => ({
    ...resolveNetwork(request, undefined, cap),
    secrets,
    intercept,
    ...(meter && { meter }),
  }))
}

function put(ctx: Context, id: SandboxId, change: (before: NetworkSpec) => NetworkSpec): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const { spec } = needSandbox(ctx, id)
    const network = change(spec.network)
    const changed = ctx.ledger.amend(id, { spec: { ...spec, network } })
    ctx.ledger.note(id, 'network.changed', {
      mode: network.mode,
      allowed: network.rules.length,
      denied: network.denied.length,
    })
    refreshLink(ctx, changed)
    return changed
  })
}

export interface Explained {
  readonly allowed: boolean
  readonly reason: string
  readonly rule: string | undefined
  readonly message: string
  readonly hint: string
  /** All of it, for a person. */
  readonly text: string
}

export function explainNetwork(
  ctx: Context,
  sandbox: Sandbox,
  asked: { readonly url: string; readonly method?: string | undefined },
): Explained {
  const target = readTarget(asked.url)
  const secrets = Object.keys(sandbox.link?.placeholders ?? {}).flatMap((name) => {
    const stored = ctx.network?.secrets.get(sandbox.owner, name)
    return stored ? [{ name, slot: stored.slot }] : []
  })
  const policy = policyOf(sandbox.spec.network, secrets)
  const question = { ...target, ...(target.path !== undefined && { method: asked.method ?? 'GET' }) }
  const decision: Decision = decide(policy, question)
  return {
    allowed: decision.allowed,
    reason: decision.reason,
    rule: decision.rule && `${describeRule(decision.rule)} (${decision.rule.source})`,
    message: decision.message,
    hint: decision.hint,
    text: explain(policy, question),
  }
}

/** `https://host:port/path`, or `host:port` for a connection of which nothing more is known. */
function readTarget(text: string): { host: never; port: number; path?: string } {
  const match = /^(?:(https?):\/\/)?([^/:?#@\s]+)(?::(\d{1,5}))?([/?].*)?$/i.exec(text)
  const [, scheme, name = '', digits, path] = match ?? []
  const reading = readHostName(name)
  if (!match)
    throw invalid('network.url', `${JSON.stringify(text)} is not an address like https://example.com/path`)
  if (!reading.ok) throw hostRefused(reading.refusal)
  const port = digits === undefined ? (scheme?.toLowerCase() === 'http' ? 80 : 443) : Number(digits)
  if (port < 1 || port > 65_535) throw invalid('network.url', 'a port is from 1 to 65535')
  const target = path?.replace(/#.*$/s, '')
  return {
    host: reading.host as never,
    port,
    ...(scheme !== undefined && {
      path: target === undefined ? '/' : target.startsWith('/') ? target : `/${target}`,
    }),
  }
}

const NOTHING: NetCounts = {
  connections: 0,
  open: 0,
  allowed: 0,
  denied: 0,
  failed: 0,
  bytesIn: 0,
  bytesOut: 0,
}

export async function netCounts(ctx: Context, id: SandboxId): Promise<NetCounts> {
  return (await ctx.network?.wayOut.counts(id)) ?? NOTHING
}

/** How many decisions are kept of one sandbox; older ones make room. */
const MOST_DECISIONS = 10_000

/** Writes down what the way out decided. What concerns no living sandbox of ours is nobody's. */
export function noteDecisions(ctx: Context, records: readonly NetRecord[]): void {
  const known = records.filter(({ sandboxId }) => ctx.ledger.get(sandboxId as SandboxId) !== undefined)
  if (known.length === 0) return
  try {
    ctx.events.appendAll(
      known.map(({ sandboxId, at, ...data }) => ({ at, sandboxId, type: 'network.decision' as const, data })),
      { type: 'network.decision', most: MOST_DECISIONS },
    )
  } catch (error) {
    ignore(ctx.log, error, `${known.length} decisions of the way out were not stored`)
  }
  for (const id of new Set(known.map(({ sandboxId }) => sandboxId))) ctx.ledger.news.tell(id)
}
