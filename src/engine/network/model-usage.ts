/** Model usage, passed from the egress process to its listeners. */
import type { SandboxId } from '../../core/id.ts'
import type { ModelUsage, UsageRecord } from '../../core/network.ts'

export type UsageListener = (sandboxId: SandboxId, usage: ModelUsage) => void

const MOST_KEPT = 10_000

export class UsageFeed {
  readonly #listeners = new Set<UsageListener>()
  /**
   * Usage that arrived before the first listener: the egress process sends its backlog to a new server at
   * once.
   */
  #early: UsageRecord[] = []

  /** Returns the unsubscribe function. The backlog is delivered after the caller returns. */
  listen(listener: UsageListener): () => void {
    this.#listeners.add(listener)
    const early = this.#early
    this.#early = []
    if (early.length > 0) queueMicrotask(() => this.note(early))
    return () => void this.#listeners.delete(listener)
  }

  note(records: readonly UsageRecord[]): void {
    if (this.#listeners.size === 0) this.#early = [...this.#early, ...records].slice(-MOST_KEPT)
    for (const { sandboxId, ...usage } of records)
      for (const listener of this.#listeners) listener(sandboxId as SandboxId, usage)
  }
}
