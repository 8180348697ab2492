/** What one key may take of a server. */
import { AgentPodError } from '../core/error.ts'
import { LOCAL } from '../core/principal.ts'

export interface Quota {
  /** Living sandboxes of one key. Whoever may open the unix socket has no such bound. */
  readonly living: number
}

export const DEFAULT_QUOTA: Quota = { living: 100 }

export function livingLimit(quota: Quota, owner: string): number | undefined {
  return owner === LOCAL.owner ? undefined : quota.living
}

export function checkLiving(quota: Quota, owner: string, living: number): void {
  const limit = livingLimit(quota, owner)
  if (limit === undefined || living < limit) return
  throw new AgentPodError({
    code: 'resource_exhausted',
    reason: 'quota.living',
    message: `this key has ${living} living sandboxes and may have ${limit}`,
    hint: 'destroy some, or wait until their time is up',
    details: { living, limit },
    retry: { afterMs: 30_000 },
  })
}
