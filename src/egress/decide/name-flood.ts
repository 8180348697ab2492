/**
 * SECURITY: NW-08. Limits how many new names below a wildcard are resolved, because a lookup sends the name
 * to the DNS server of the domain and a sandbox can make up any name. What remains (names of up to 253
 * characters, sixty a minute) is a slow leak to the owner of a domain that the user allowed. An open network
 * allows every name, so there the limit only protects the resolver.
 */
import type { Rule } from '../../policy/rule.ts'
import type { Clock } from '../../util/clock.ts'

export const NEW_NAMES_PER_MINUTE = 60
export const NEW_NAMES_PER_MINUTE_OPEN = 600
const MINUTE_MS = 60_000
const MOST_REMEMBERED = 4096

interface Seen {
  readonly names: Set<string>
  /** When the names of the last minute were first seen, oldest first. */
  arrivals: number[]
}

export class NameFlood {
  readonly #clock: Clock
  readonly #seen = new Map<string, Seen>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a name may be resolved under the rule that allows it. Without a rule the network is open. */
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
