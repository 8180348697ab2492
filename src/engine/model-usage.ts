/** What models were asked for, passed on to whoever keeps accounts. */
import type { SandboxId } from '../core/id.ts'
import type { ModelUsage, UsageRecord } from '../core/network.ts'

export type UsageListener = (sandboxId: SandboxId, usage: ModelUsage) => void

const MOST_KEPT = 10_000

export class UsageFeed {
  readonly #listeners = new Set<UsageListener>()
  /** What came before anybody listened: the way out tells at once what it has kept for a new server. */
  #early: UsageRecord[] = []

  /** Returns what ends it. What came early is told as soon as the caller is done. */
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
