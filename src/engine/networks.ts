/** The engine's calls about networks, as front doors make them: who asks is checked, and what is asked for is audited. */
import type { AuditAction, AuditEntry } from '../core/audit.ts'
import type { SandboxEvent } from '../core/event.ts'
import type { NetCounts, NetRecord, UsageRecord } from '../core/network.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Context } from './context.ts'
import { UsageFeed, type UsageListener } from './model-usage.ts'
import type { NetworkChange, NetworkRequest } from './network.ts'
import {
  type Explained,
  explainNetwork,
  netCounts,
  noteDecisions,
  replaceNetwork,
  setNetwork,
} from './network-verbs.ts'

/** What calls that belong to one subject need of the engine. */
export interface Desk {
  readonly ctx: Context
  /** The sandbox of that id or name; `not_found` where the caller may not see it. */
  get(ref: string, who: Principal): Sandbox
  audit(actor: string, action: AuditAction, subject: string, data: AuditEntry['data']): void
}

export class Networks {
  readonly #desk: Desk
  readonly #usage = new UsageFeed()

  constructor(desk: Desk) {
    this.#desk = desk
  }

  /** Changes what a sandbox may reach, at once. `permission_denied` beyond what the caller's key may have. */
  async change(ref: string, change: NetworkChange, who: Principal = LOCAL): Promise<Sandbox> {
    const { ctx, get, audit } = this.#desk
    const changed = await setNetwork(ctx, get(ref, who).id, change, who.network)
    audit(who.owner, 'network.change', changed.id, { ...change })
    return changed
  }

  /** Says anew, as a whole, what a sandbox may reach; its secrets stay. */
  async replace(ref: string, request: NetworkRequest, who: Principal = LOCAL): Promise<Sandbox> {
    const { ctx, get, audit } = this.#desk
    const changed = await replaceNetwork(ctx, get(ref, who).id, request, who.network)
    audit(who.owner, 'network.change', changed.id, { mode: changed.spec.network.mode })
    return changed
  }

  /** Which rule decides about an address, and why. Nothing is asked of the network. */
  explain(
    ref: string,
    asked: { readonly url: string; readonly method?: string | undefined },
    who: Principal = LOCAL,
  ): Explained {
    return explainNetwork(this.#desk.ctx, this.#desk.get(ref, who), asked)
  }

  counts(ref: string, who: Principal = LOCAL): Promise<NetCounts> {
    return netCounts(this.#desk.ctx, this.#desk.get(ref, who).id)
  }

  /** What the way out has decided for every sandbox, oldest first. For admins. */
  decisions(o: { readonly after: number; readonly limit: number }): SandboxEvent[] {
    return this.#desk.ctx.events.ofType('network.decision', o)
  }

  /** What the egress process has decided. */
  note(records: readonly NetRecord[]): void {
    noteDecisions(this.#desk.ctx, records)
  }

  /** What the egress process has counted. */
  noteUsage(records: readonly UsageRecord[]): void {
    this.#usage.note(records)
  }

  onModelUsage(listener: UsageListener): () => void {
    return this.#usage.listen(listener)
  }
}
