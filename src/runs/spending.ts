/** The cost of a run: reported now and then, and held against its limit. */
import type { DriverStep } from '../agents/drivers/driver.ts'
import type { Run } from '../core/run.ts'
import type { Clock } from '../util/clock.ts'
import type { StopRequest } from './progress.ts'
import type { RunRecord } from './record.ts'
import { addUse, claimUse, type ModelUse } from './usage.ts'

/** Reported at most this often; the final figures are always reported. */
const TOLD_EVERY_MS = 1000
/** SECURITY: CP-16. Refused requests cost nothing, so their reports need a limit. */
const MOST_TOLD = 200

export class Spending {
  readonly #record: RunRecord
  readonly #clock: Clock
  readonly #stop: (wish: StopRequest) => void
  #cancel: (() => void) | undefined
  /** Refusals in a row, without an answer in between. */
  #refusals = 0
  #told = 0

  constructor(record: RunRecord, clock: Clock, stop: (wish: StopRequest) => void) {
    this.#record = record
    this.#clock = clock
    this.#stop = stop
  }

  /** Called for each model answer that the egress process has seen. */
  use(use: ModelUse): void {
    const { run, progress } = this.#record
    if (use.refusal !== undefined) {
      this.#refused(use.refusal)
      const isReported = isAboutKey(use.refusal) || progress.hasAnswer !== true
      if (isReported && use.refusal !== progress.refusal) this.#record.advance({ refusal: use.refusal })
      return
    }
    this.#refusals = 0
    if (progress.hasAnswer !== true || progress.refusal !== undefined)
      this.#record.advance({ hasAnswer: true, refusal: undefined })
    this.#used(addUse(run.usage, use))
  }

  /** Agents retry silently, sometimes for minutes, so each refusal is reported. */
  #refused(status: number): void {
    if (!isTemporary(status) || this.#told > MOST_TOLD) return
    this.#refusals++
    this.#told++
    const which = this.#refusals > 1 ? `, ${this.#refusals} times in a row` : ''
    const text =
      this.#told > MOST_TOLD
        ? 'The model keeps refusing requests; further refusals are not reported.'
        : `The model answered ${status} (${WHY[status] ?? 'an error'})${which}; the agent may retry.`
    this.#record.report([{ type: 'note', text }])
  }

  /** Usage as the agent itself reports it. */
  claim(tokens: NonNullable<DriverStep<unknown>['tokens']>): void {
    this.#used(claimUse(this.#record.run.usage, tokens))
  }

  /** Reports what was not reported yet. */
  settle(): void {
    if (!this.#cancel) return
    this.#cancel()
    this.#cancel = undefined
    this.#record.save({})
    const { usage } = this.#record.run
    this.#record.report([{ type: 'usage', usage }])
    // The agent's figures often arrive before those of the wire, and are often higher, so they are checked
    // last.
    if (usage.source === 'agent') this.#check(usage)
  }

  leave(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #used(usage: Run['usage']): void {
    if (usage === this.#record.run.usage) return
    this.#record.note({ usage })
    this.#cancel ??= this.#clock.after(TOLD_EVERY_MS, () => this.settle())
    if (usage.source === 'wire') this.#check(usage)
  }

  #check({ costUsd, models }: Run['usage']): void {
    const most = this.#record.run.limits.costUsd
    if (most === undefined) return
    if (costUsd === undefined) {
      const names = Object.keys(models).join(', ') || 'its model'
      this.#stop({
        outcome: 'over_budget',
        reason: `the price of ${names} is unknown, so --max-cost cannot be enforced`,
      })
    } else if (costUsd >= most)
      this.#stop({
        outcome: 'over_budget',
        reason: `it has cost $${costUsd.toFixed(4)}, and its limit is $${most}`,
      })
  }
}

/** Statuses after which agents wait and retry. */
function isTemporary(status: number): boolean {
  return status === 408 || status === 429 || status >= 500
}

const WHY: Readonly<Record<number, string>> = {
  408: 'too slow',
  429: 'too many requests',
  503: 'not available',
  529: 'overloaded',
}

/**
 * Agents also ask models for titles and the like, and a refusal of those means nothing. A refused key does.
 */
function isAboutKey(status: number): boolean {
  return status === 401 || status === 403
}
