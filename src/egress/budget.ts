/** What rules with a budget have used up, for one sandbox. A new policy that says the same of a rule finds its use as it was. */
import { hashRules, type Rule } from '../policy/rule.ts'
import type { Clock } from '../util/clock.ts'

export type Exhausted = 'budget.rate' | 'budget.bytes'
/** Takes bytes off; false once there are no more. */
export type Spend = (bytes: number) => boolean

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
    const chain = budgeted(rule)
    const second = Math.floor(this.#clock.now() / 1000)
    for (const one of chain) {
      const use = this.#use(one)
      const { bytes, requestsPerMinute } = one.budget ?? {}
      if (bytes !== undefined && use.bytes >= bytes) return 'budget.bytes'
      if (requestsPerMinute !== undefined && recent(use, second) >= requestsPerMinute) return 'budget.rate'
    }
    for (const one of chain) {
      const { seconds } = this.#use(one)
      seconds.set(second, (seconds.get(second) ?? 0) + 1)
    }
    return undefined
  }

  /** Undefined where nothing limits the bytes, so that nobody counts them. */
  spender(rule: Rule | undefined): Spend | undefined {
    const limited = budgeted(rule).flatMap((one) => {
      const limit = one.budget?.bytes
      return limit === undefined ? [] : [{ use: this.#use(one), limit }]
    })
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

  #use(rule: Rule): Use {
    let hash = this.#hashes.get(rule)
    if (hash === undefined) {
      hash = hashRules([rule])
      this.#hashes.set(rule, hash)
    }
    let use = this.#uses.get(hash)
    if (!use) {
      use = { bytes: 0, seconds: new Map() }
      this.#uses.set(hash, use)
    }
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
