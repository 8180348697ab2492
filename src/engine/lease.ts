import type { GuestLease } from '../core/guest.ts'
import type { Lifetime } from '../core/spec.ts'

/**
 * What the guest itself holds. It can only end the sandbox, so where the end is a pause it holds nothing, and provider and sweep watch
 * the time.
 */
export function leaseOf({ whenOver, idleMs }: Lifetime, remainingMs: number): GuestLease {
  if (whenOver === 'pause') return { remainingMs: 0, idleMs: 0 }
  // Zero would mean no end at all.
  return { remainingMs: Math.max(1, remainingMs), idleMs }
}
