/** What rules and secrets with a budget have used up, for one sandbox. A new policy that says the same of a rule finds its use as it was. */
import type { Budget } from '../core/network.ts'
import { hashRules, type Rule } from '../policy/rule.ts'
import type { Clock } from '../util/clock.ts'

export type Exhausted = 'budget.rate' | 'budget.bytes'
/** Takes bytes off; false once there are no more. */
export type Spend = (bytes: number) => boolean

/** What something may use that is no rule, such as a secret. */
export interface Limit {
  /** The same for what is used together. */
  readonly key: string
  readonly budget: Budget
}

interface Use {
  bytes: number
  /** Requests of each of the last sixty seconds, by the second they fell in. */
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

  /** Counts a request, or says what is used up and counts nothing. */
  admit(rule: Rule | undefined): Exhausted | undefined {
    return this.admitAll(this.#limits(rule))
  }

  /** Undefined where nothing limits the bytes, so that nobody counts them. */
  spender(rule: Rule | undefined): Spend | undefined {
    return this.spenderOf(this.#limits(rule))
  }

  /** As `admit`, against all of them or none. */
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

  /** As `spender`. */
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

/** A rule and the grants it was cut from, as far as they have a budget. */
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
