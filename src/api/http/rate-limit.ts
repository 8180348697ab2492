/** Limits the requests per second of each key, with room for a burst: one token bucket per key. */
import { AgentPodError } from '../../core/error.ts'
import type { Clock } from '../../util/clock.ts'

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

export const DEFAULT_RATE: Rate = { perSecond: 200, burst: 1000 }

const MOST_BUCKETS = 10_000

export class RateLimit {
  readonly #clock: Clock
  readonly #rate: Rate
  readonly #buckets = new Map<string, { tokens: number; at: number }>()

  constructor(clock: Clock, rate: Rate = DEFAULT_RATE) {
    this.#clock = clock
    this.#rate = rate
  }

  /** Counts one request of a key, or refuses it with the time to wait. A refused request costs nothing. */
  take(key: string): void {
    const { perSecond, burst } = this.#rate
    const now = this.#clock.now()
    const bucket = this.#buckets.get(key) ?? { tokens: burst, at: now }
    // If the clock was set back, the bucket neither gains nor loses tokens.
    const tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.at) / 1000) * perSecond)
    if (tokens < 1) {
      this.#buckets.set(key, { tokens, at: now })
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'rate.requests',
        message: `rate limit exceeded: this key may send ${perSecond} requests per second`,
        hint: 'wait for the time in the Retry-After header',
        retry: { afterMs: ((1 - tokens) / perSecond) * 1000 },
      })
    }
    this.#buckets.set(key, { tokens: tokens - 1, at: now })
    if (this.#buckets.size > MOST_BUCKETS) this.#forgetFull(now)
  }

  /** A full bucket needs no entry. */
  #forgetFull(now: number): void {
    const fillMs = (this.#rate.burst / this.#rate.perSecond) * 1000
    for (const [key, { at }] of this.#buckets) if (now - at >= fillMs) this.#buckets.delete(key)
  }
}
