/** What answers of models have taken, on its way to the server: each within a moment, and kept within a bound while no server is there. */
import type { ModelUsage, UsageRecord } from '../core/network.ts'
import type { Clock } from '../util/clock.ts'

export type DeliverUsage = (records: readonly UsageRecord[]) => boolean

const SOON_MS = 50
const MOST_KEPT = 1000
const MOST_MODELS = 100
const OTHERS = 'others'

export class UsageRecords {
  readonly #sandbox: string
  readonly #clock: Clock
  /** Says whether somebody took them. */
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

  /** Delivers what there is, such as when a server connects or the link is closed. */
  flush(): void {
    this.#cancel?.()
    this.#cancel = undefined
    if (this.#kept.length > 0 && this.#deliver(this.#kept)) this.#kept = []
  }
}

/** The tokens stay what they are; how many answers they were of is lost. */
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
