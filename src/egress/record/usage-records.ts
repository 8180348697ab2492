/**
 * Token usage on its way to the server: delivered after a moment, and bounded while no server is connected.
 */
import type { ModelUsage, UsageRecord } from '../../core/network.ts'
import type { Clock } from '../../util/clock.ts'

export type DeliverUsage = (records: readonly UsageRecord[]) => boolean

const SOON_MS = 50
const MOST_KEPT = 1000
const MOST_MODELS = 100
const OTHERS = 'others'

export class UsageRecords {
  readonly #sandbox: string
  readonly #clock: Clock
  /** Returns whether a server received the records. */
  readonly #deliver: DeliverUsage
  #kept: UsageRecord[] = []
  #cancel: (() => void) | undefined

  constructor(o: { readonly sandbox: string; readonly clock: Clock; readonly deliver: DeliverUsage }) {
    this.#sandbox = o.sandbox
    this.#clock = o.clock
    this.#deliver = o.deliver
  }

  note(usage: ModelUsage): void {
    this.#kept.push({ sandboxId: this.#sandbox, ...usage })
    if (this.#kept.length > MOST_KEPT) this.#kept = joined(this.#kept)
    this.#cancel ??= this.#clock.after(SOON_MS, () => this.flush())
  }

  /** Delivers all records, for example when a server connects or the sandbox is closed. */
  flush(): void {
    this.#cancel?.()
    this.#cancel = undefined
    if (this.#kept.length > 0 && this.#deliver(this.#kept)) this.#kept = []
  }
}

/** Keeps the sums of tokens; the number of responses is lost. */
function joined(records: readonly UsageRecord[]): UsageRecord[] {
  const byModel = new Map<string, UsageRecord>()
  for (const record of records) {
    if (record.refusal !== undefined) continue
    const isRoom = byModel.has(record.model) || byModel.size < MOST_MODELS
    const model = isRoom ? record.model : OTHERS
    const before = byModel.get(model)
    byModel.set(model, {
      sandboxId: record.sandboxId,
      model,
      input: record.input + (before?.input ?? 0),
      cached: record.cached + (before?.cached ?? 0),
      output: record.output + (before?.output ?? 0),
    })
  }
  return [...byModel.values()]
}
