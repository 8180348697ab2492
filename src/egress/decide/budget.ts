/**
 * The used budgets of rules and secrets of one sandbox. An unchanged rule keeps its usage when the policy
 * changes.
 */
import type { Budget } from '../../core/network.ts'
import { hashRules, type Rule } from '../../policy/rule.ts'
import type { Clock } from '../../util/clock.ts'

export type Exhausted = 'budget.rate' | 'budget.bytes'
/** Spends bytes; false if the budget is exceeded. */
export type Spend = (bytes: number) => boolean

/** The budget of a secret or a rule. */
export interface Limit {
  /** Limits with the same key share their usage. */
  readonly key: string
  readonly budget: Budget
}

interface Use {
  bytes: number
  /** The number of requests in each of the last sixty seconds. */
  readonly seconds: Map<number, number>
}

const WINDOW_S = 60

export class Budgets {
  readonly #clock: Clock
  readonly #uses = new Map<string, Use>()
  readonly #hashes = new WeakMap<Rule, string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts a request, or returns which budget is used up and counts nothing. */
  admit(rule: Rule | undefined): Exhausted | undefined {
    return this.admitAll(this.#limits(rule))
  }

  /** Undefined if no budget limits the bytes, so that they need not be counted. */
  spender(rule: Rule | undefined): Spend | undefined {
    return this.spenderOf(this.#limits(rule))
  }

  /** Like `admit`, for several limits: counts against all of them or none. */
  admitAll(limits: readonly Limit[]): Exhausted | undefined {
    const second = Math.floor(this.#clock.now() / 1000)
    for (const { key, budget } of limits) {
      const use = this.#use(key)
      const { bytes, requestsPerMinute } = budget
      if (bytes !== undefined && use.bytes >= bytes) return 'budget.bytes'
      if (requestsPerMinute !== undefined && recent(use, second) >= requestsPerMinute) return 'budget.rate'
    }
    for (const { key } of limits) {
      const { seconds } = this.#use(key)
      seconds.set(second, (seconds.get(second) ?? 0) + 1)
    }
    return undefined
  }

  /** Like `spender`, for several limits. */
  spenderOf(limits: readonly Limit[]): Spend | undefined {
    const limited = limits.flatMap(({ key, budget: { bytes } }) =>
      bytes === undefined ? [] : [{ use: this.#use(key), limit: bytes }],
    )
    if (limited.length === 0) return undefined
    return (bytes) => {
      let isWithin = true
      for (const { use, limit } of limited) {
        use.bytes += bytes
        if (use.bytes > limit) isWithin = false
      }
      return isWithin
    }
  }

  #limits(rule: Rule | undefined): Limit[] {
    return budgeted(rule).flatMap((one) => (one.budget ? [{ key: this.#hash(one), budget: one.budget }] : []))
  }

  #hash(rule: Rule): string {
    const known = this.#hashes.get(rule)
    if (known !== undefined) return known
    const hash = hashRules([rule])
    this.#hashes.set(rule, hash)
    return hash
  }

  #use(key: string): Use {
    const known = this.#uses.get(key)
    if (known) return known
    const use: Use = { bytes: 0, seconds: new Map() }
    this.#uses.set(key, use)
    return use
  }
}

/** The rule and the user's grants that it was narrowed from, if they have a budget. */
function budgeted(rule: Rule | undefined): Rule[] {
  const chain: Rule[] = []
  for (let one = rule; one; one = one.within) if (one.budget) chain.push(one)
  return chain
}

function recent({ seconds }: Use, now: number): number {
  let sum = 0
  for (const [second, count] of seconds) {
    if (second <= now - WINDOW_S || second > now) seconds.delete(second)
    else sum += count
  }
  return sum
}
