import { invalid } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { LONGEST_TTL_MS } from '../core/spec.ts'
import { CALL } from './call.ts'
import type { Context } from './context.ts'
import { leaseOf } from './lease.ts'
import { notRunning } from './need.ts'

export interface ExtendOptions {
  /** Leaves a deadline that is later already. */
  readonly onlyLonger?: boolean | undefined
}

/** Gives a sandbox `ttlMs` from now. The record, the provider and the guest each hold the deadline. Idempotent. */
export async function extend(
  ctx: Context,
  id: SandboxId,
  ttlMs: number,
  o: ExtendOptions = {},
): Promise<Sandbox> {
  checkTtl(ttlMs)
  return ctx.lock.run(id, async () => {
    const live = ctx.live.get(id)
    const sandbox = ctx.ledger.get(id)
    if (sandbox?.state === 'running') ctx.providers.of(sandbox)
    if (!live || sandbox?.state !== 'running') throw notRunning(id, sandbox)
    const deadlineAt = ctx.clock.now() + ttlMs
    if (o.onlyLonger && sandbox.deadlineAt >= deadlineAt) return sandbox
    const extended = ctx.ledger.amend(id, { deadlineAt })
    await ctx.providers.of(sandbox).deadlines?.extend(id, deadlineAt, CALL)
    await live.guest.lease?.renew(leaseOf(sandbox.spec.lifetime, ttlMs), CALL)
    ctx.ledger.note(id, 'sandbox.extended', { deadlineAt })
    return extended
  })
}

export function checkTtl(ttlMs: number): void {
  if (Number.isInteger(ttlMs) && ttlMs >= 1000 && ttlMs <= LONGEST_TTL_MS) return
  throw invalid('lifetime.ttl', 'the time to live must be from 1 second to 30 days')
}
