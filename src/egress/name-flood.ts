/**
 * SECURITY: NW-08. Below a wildcard every name can be made up, and asking for a name tells it to the server of the domain. What is left after this limit
 * (names of up to 253 characters, sixty a minute) is a slow leak to whoever runs the domain that the user allowed. An open network lets every name
 * through, so there the limit only keeps the resolver for others.
 */
import type { Rule } from '../policy/rule.ts'
import type { Clock } from '../util/clock.ts'

export const NEW_NAMES_PER_MINUTE = 60
export const NEW_NAMES_PER_MINUTE_OPEN = 600
const MINUTE_MS = 60_000
const MOST_REMEMBERED = 4096

interface Seen {
  readonly names: Set<string>
  /** When the newest names came, oldest first. */
  arrivals: number[]
}

export class NameFlood {
  readonly #clock: Clock
  readonly #seen = new Map<string, Seen>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a name may be asked for under the rule that allows it; without one, the network is open. */
  admits(rule: Rule | undefined, host: string): boolean {
    if (rule && !rule.host.startsWith('*.')) return true
    const key = rule?.host ?? ''
    const seen = this.#seen.get(key) ?? { names: new Set(), arrivals: [] }
    this.#seen.set(key, seen)
    if (seen.names.has(host)) return true
    const now = this.#clock.now()
    seen.arrivals = seen.arrivals.filter((at) => at > now - MINUTE_MS)
    if (seen.arrivals.length >= (rule ? NEW_NAMES_PER_MINUTE : NEW_NAMES_PER_MINUTE_OPEN)) return false
    seen.arrivals.push(now)
    if (seen.names.size < MOST_REMEMBERED) seen.names.add(host)
    return true
  }
}
