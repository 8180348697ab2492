/** What a run uses, told now and then, and its limit of money held. */
import type { Step } from '../agents/driver.ts'
import type { Run } from '../core/run.ts'
import type { Clock } from '../util/clock.ts'
import type { Wish } from './progress.ts'
import type { RunRecord } from './record.ts'
import { addUse, claimUse, type ModelUse } from './usage.ts'

/** Told at most so often; the last figures always are. */
const TOLD_EVERY_MS = 1000
/** SECURITY: CP-16. Requests that are refused cost nothing. */
const MOST_TOLD = 200

export class Accounts {
  readonly #record: RunRecord
  readonly #clock: Clock
  readonly #stop: (wish: Wish) => void
  #cancel: (() => void) | undefined
  /** One after the other, without an answer in between. */
  #refusals = 0
  #told = 0

  constructor(record: RunRecord, clock: Clock, stop: (wish: Wish) => void) {
    this.#record = record
    this.#clock = clock
    this.#stop = stop
  }

  /** What the way out has seen. */
  use(use: ModelUse): void {
    const { run, progress } = this.#record
    if (use.refusal !== undefined) {
      this.#refused(use.refusal)
      const isTold = isAboutKey(use.refusal) || progress.hasAnswer !== true
      if (isTold && use.refusal !== progress.refusal) this.#record.advance({ refusal: use.refusal })
      return
    }
    this.#refusals = 0
    if (progress.hasAnswer !== true || progress.refusal !== undefined)
      this.#record.advance({ hasAnswer: true, refusal: undefined })
    this.#used(addUse(run.usage, use))
  }

  /** Agents try again without a word, sometimes for minutes: each time is told. */
  #refused(status: number): void {
    if (!isForNow(status) || this.#told > MOST_TOLD) return
    this.#refusals++
    this.#told++
    const which = this.#refusals > 1 ? ` (${this.#refusals} times in a row)` : ''
    const text =
      this.#told > MOST_TOLD
        ? 'The model refuses more requests; they are not told any more.'
        : `The model answered ${status}, ${WHY[status] ?? 'an error of its own'}${which}; the agent may try again.`
    this.#record.tell([{ type: 'note', text }])
  }

  /** The agent's own word. */
  claim(tokens: NonNullable<Step<unknown>['tokens']>): void {
    this.#used(claimUse(this.#record.run.usage, tokens))
  }

  /** What was not told yet. */
  settle(): void {
    if (!this.#cancel) return
    this.#cancel()
    this.#cancel = undefined
    this.#record.save({})
    const { usage } = this.#record.run
    this.#record.tell([{ type: 'usage', usage }])
    // An agent's word is often there before what was seen on the wire, and often more than it.
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
        reason: `the price of ${names} is not known, so --max-cost cannot be kept`,
      })
    } else if (costUsd >= most)
      this.#stop({
        outcome: 'over_budget',
        reason: `it has used $${costUsd.toFixed(4)}, and its limit is $${most}`,
      })
  }
}

/** Answers after which agents wait and ask again. */
function isForNow(status: number): boolean {
  return status === 408 || status === 429 || status >= 500
}

const WHY: Readonly<Record<number, string>> = {
  408: 'too slow',
  429: 'too many requests',
  503: 'not available',
  529: 'overloaded',
}

/** Beside a conversation that goes well, agents ask for titles and the like; that those are refused says nothing. A key that is refused does. */
function isAboutKey(status: number): boolean {
  return status === 401 || status === 403
}
