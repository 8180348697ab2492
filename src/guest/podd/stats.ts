/** Parses podd's usage strictly: it comes out of a sandbox. */
import { AgentPodError } from '../../core/error.ts'
import type { GuestStats } from '../../core/guest.ts'

const STATS_KEYS = ['cpuMs', 'memBytes', 'pids', 'processes', 'uptimeMs', 'idleForMs'] as const

export function parseStats(value: unknown): GuestStats {
  const fields = value as Record<string, unknown> | null
  const usage: Record<string, number> = {}
  for (const key of STATS_KEYS) {
    const number = fields?.[key] ?? 0
    if (typeof number !== 'number' || !Number.isFinite(number) || number < 0) {
      throw new AgentPodError({
        code: 'internal',
        reason: 'guest.protocol',
        message: `podd's usage has no valid number ${key}`,
      })
    }
    usage[key] = number
  }
  return usage as unknown as GuestStats
}
