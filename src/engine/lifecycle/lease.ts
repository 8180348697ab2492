import type { GuestLease } from '../../core/guest.ts'
import type { Lifetime } from '../../core/spec.ts'

/**
 * The lease that the guest enforces by ending the sandbox. If the sandbox is to be paused at its end, the
 * guest gets no lease, and provider and sweep watch the time.
 */
export function leaseOf({ whenOver, whenIdle, idleMs }: Lifetime, remainingMs: number): GuestLease {
  if (whenOver === 'pause') return { remainingMs: 0, idleMs: 0 }
  // Zero would mean no limit.
  return { remainingMs: Math.max(1, remainingMs), idleMs: whenIdle === 'pause' ? 0 : idleMs }
}
