/** The network of sandboxes, as the API asks for it: access is checked, calls are audited. */
import type { SandboxEvent } from '../../core/event.ts'
import type { SandboxId } from '../../core/id.ts'
import type { NetCounts, NetRecord, NetworkSpec, UsageRecord } from '../../core/network.ts'
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import type { Context } from '../context.ts'
import { getSandbox } from '../find-sandbox.ts'
import { requireSandbox } from '../lifecycle/require-sandbox.ts'
import { recordAudit } from '../record-audit.ts'
import { refreshLink } from './egress-link.ts'
import { explainNetwork, type NetworkExplanation } from './explain-network.ts'
import { UsageFeed, type UsageListener } from './model-usage.ts'
import { changeNetwork, type NetworkChange, type NetworkRequest, resolveNetwork } from './network-spec.ts'

/** How many decisions are stored per sandbox; the oldest are removed first. */
const MOST_DECISIONS = 10_000

const NO_COUNTS: NetCounts = {
  connections: 0,
  open: 0,
  allowed: 0,
  denied: 0,
  failed: 0,
  bytesIn: 0,
  bytesOut: 0,
}

export class NetworkOperations {
  readonly #ctx: Context
  readonly #usage = new UsageFeed()

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /**
   * Changes the rules of a sandbox. Open connections follow within five seconds. `permission_denied` for
   * rules beyond what the caller's key allows.
   */
  async change(ref: string, change: NetworkChange, who: Principal): Promise<Sandbox> {
    const { id } = getSandbox(this.#ctx, ref, who)
    const changed = await updateNetwork(this.#ctx, id, (before) => changeNetwork(before, change, who.network))
    recordAudit(this.#ctx, who, 'network.change', { subject: id, data: { ...change } })
    return changed
  }

  /** Replaces the network of a sandbox as a whole; its secrets stay. */
  async replace(ref: string, request: NetworkRequest, who: Principal): Promise<Sandbox> {
    const { id } = getSandbox(this.#ctx, ref, who)
    const changed = await updateNetwork(this.#ctx, id, ({ secrets, intercept, meter }) => ({
      ...resolveNetwork(request, undefined, who.network),
      secrets,
      intercept,
      ...(meter && { meter }),
    }))
    recordAudit(this.#ctx, who, 'network.change', {
      subject: id,
      data: { mode: changed.spec.network.mode },
    })
    return changed
  }

  /** Which rule decides about an address, and why. Sends nothing over the network. */
  explain(
    ref: string,
    asked: { readonly url: string; readonly method?: string | undefined },
    who: Principal,
  ): NetworkExplanation {
    return explainNetwork(this.#ctx, getSandbox(this.#ctx, ref, who), asked)
  }

  counts(ref: string, who: Principal): Promise<NetCounts> {
    return netCounts(this.#ctx, getSandbox(this.#ctx, ref, who).id)
  }

  /** The decisions of the egress process for all sandboxes, oldest first. For admins. */
  decisions(o: { readonly after: number; readonly limit: number }): SandboxEvent[] {
    return this.#ctx.events.ofType('network.decision', o)
  }

  /** Stores decisions of the egress process. Those about unknown sandboxes are dropped. */
  recordDecisions(records: readonly NetRecord[]): void {
    const { registry, events, log } = this.#ctx
    const known = records.filter(({ sandboxId }) => registry.get(sandboxId as SandboxId) !== undefined)
    if (known.length === 0) return
    try {
      const type = 'network.decision' as const
      events.appendAll(
        known.map(({ sandboxId, at, ...data }) => ({ at, sandboxId, type, data })),
        { type, most: MOST_DECISIONS },
      )
    } catch (error) {
      ignore(log, error, `${known.length} decisions of the egress process were not stored`)
    }
    for (const id of new Set(known.map(({ sandboxId }) => sandboxId))) registry.notifier.notify(id)
  }

  /** Passes on the model usage that the egress process has counted. */
  recordUsage(records: readonly UsageRecord[]): void {
    this.#usage.note(records)
  }

  /**
   * Calls the listener for each model answer that a metered sandbox received. Returns the unsubscribe
   * function.
   */
  onModelUsage(listener: UsageListener): () => void {
    return this.#usage.listen(listener)
  }
}

function updateNetwork(
  ctx: Context,
  id: SandboxId,
  change: (before: NetworkSpec) => NetworkSpec,
): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const { spec } = requireSandbox(ctx, id)
    const network = change(spec.network)
    const changed = ctx.registry.update(id, { spec: { ...spec, network } })
    ctx.registry.appendEvent(id, 'network.changed', {
      mode: network.mode,
      allowed: network.rules.length,
      denied: network.denied.length,
    })
    refreshLink(ctx, changed)
    return changed
  })
}

export async function netCounts(ctx: Context, id: SandboxId): Promise<NetCounts> {
  return (await ctx.network?.egress.counts(id)) ?? NO_COUNTS
}
