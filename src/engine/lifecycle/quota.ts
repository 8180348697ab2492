/** How many sandboxes one key may have. */
import { AgentPodError } from '../../core/error.ts'
import { LOCAL } from '../../core/principal.ts'

export interface Quota {
  /** Existing sandboxes of one key. The local user has no limit. */
  readonly living: number
}

export const DEFAULT_QUOTA: Quota = { living: 100 }

export function sandboxLimit(quota: Quota, owner: string): number | undefined {
  return owner === LOCAL.owner ? undefined : quota.living
}

export function checkQuota(quota: Quota, owner: string, living: number): void {
  const limit = sandboxLimit(quota, owner)
  if (limit === undefined || living < limit) return
  throw new AgentPodError({
    code: 'resource_exhausted',
    reason: 'quota.living',
    message: `this key has ${living} sandboxes, and its limit is ${limit}`,
    hint: 'destroy some, or wait until they expire',
    details: { living, limit },
    retry: { afterMs: 30_000 },
  })
}
