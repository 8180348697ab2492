/** Suggests the smallest rules that would allow the connections that were denied to a sandbox. */
import { isAgentPodError } from '../../core/error.ts'
import type { NetRecord } from '../../core/network.ts'
import { DEFAULT_PORTS, parseRule } from '../../policy/rule.ts'

export type SeenConnection = Pick<NetRecord, 'verdict' | 'reason' | 'host' | 'port' | 'count'>

export interface Suggestion {
  /** In the syntax of `agentpod.toml` and `agentpod allow`. */
  readonly rules: readonly { readonly text: string; readonly count: number }[]
  /** Denied hosts that no rule can allow. */
  readonly never: readonly string[]
}

/** Denied because no rule matched or the network was off: a rule can allow these. */
const OPENABLE = ['rule.none', 'open.host', 'open.port', 'mode.off']

/** Exact hosts with the ports that were used: it never suggests a wildcard. */
export function suggestRules(seen: readonly SeenConnection[]): Suggestion {
  const wanted = new Map<string, { ports: Set<number>; count: number }>()
  const never = new Set<string>()
  for (const { verdict, reason, host, port, count } of seen) {
    if (verdict !== 'denied') continue
    if (!OPENABLE.includes(reason) || !isOpenable(host)) {
      never.add(host)
      continue
    }
    const entry = wanted.get(host) ?? { ports: new Set(), count: 0 }
    entry.ports.add(port)
    entry.count += count
    wanted.set(host, entry)
  }
  const rules = [...wanted].map(([host, { ports, count }]) => ({ text: textOf(host, ports), count }))
  return { rules: rules.sort((a, b) => (a.text < b.text ? -1 : 1)), never: [...never].sort() }
}

function textOf(host: string, ports: ReadonlySet<number>): string {
  const sorted = [...ports].sort((a, b) => a - b)
  return sorted.every((port) => DEFAULT_PORTS.includes(port)) ? host : `${host}:${sorted.join(',')}`
}

function isOpenable(host: string): boolean {
  try {
    parseRule(host, 'live')
    return true
  } catch (error) {
    if (isAgentPodError(error)) return false
    throw error
  }
}
