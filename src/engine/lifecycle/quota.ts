/** How many sandboxes one key may have, and how many the local user may keep. */
import { AgentPodError } from '../../core/error.ts'
import { LOCAL } from '../../core/principal.ts'
import { RUN_LABEL } from '../../core/run.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { DEFAULT_KEPT } from '../../core/spec.ts'

export interface Quota {
  /** Existing sandboxes of one key. The local user has no limit. */
  readonly living: number
  /** Stopped sandboxes of the local user, besides those of runs. */
  kept?(): number
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

/** Refuses a sandbox that will be kept, if too many are. A sandbox that exists is never refused its stop. */
export function checkKept(
  quota: Quota,
  { owner, labels, spec }: KeptCandidate,
  own: readonly Sandbox[],
): void {
  if (owner !== LOCAL.owner || spec.lifetime.whenOver === 'destroy' || isOfRun({ labels })) return
  const limit = quota.kept?.() ?? DEFAULT_KEPT
  const kept = own.filter((one) => one.state === 'stopped' && !isOfRun(one)).length
  if (kept < limit) return
  throw new AgentPodError({
    code: 'resource_exhausted',
    reason: 'quota.kept',
    message: `${kept} stopped sandboxes are kept, and the limit is ${limit}`,
    hint: '`agentpod ls` shows them and `agentpod destroy NAME` removes one; `[sandboxes] kept = N` in config.toml changes the limit',
    details: { kept, limit },
  })
}

type KeptCandidate = Pick<Sandbox, 'owner' | 'labels' | 'spec'>

/** Runs have their own limit on what they keep. */
function isOfRun({ labels }: Pick<Sandbox, 'labels'>): boolean {
  return Object.hasOwn(labels, RUN_LABEL)
}
