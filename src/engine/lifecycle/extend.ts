import { invalid } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { LONGEST_TTL_MS } from '../../core/spec.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'
import { presentLifetime } from '../groups/follower-lifetime.ts'
import { leaseOf } from './lease.ts'
import { unusableSandbox } from './require-sandbox.ts'

const SHORTEST_TTL_MS = 1000

export interface ExtendOptions {
  /** Keeps the current deadline if it is later. */
  readonly onlyLonger?: boolean | undefined
}

/** Sets the deadline to `ttlMs` from now, in the record, at the provider and in the guest. Idempotent. */
export async function extend(
  ctx: Context,
  id: SandboxId,
  ttlMs: number,
  o: ExtendOptions = {},
): Promise<Sandbox> {
  checkTtl(ttlMs)
  return ctx.lock.run(id, async () => {
    const connection = ctx.connections.get(id)
    const sandbox = ctx.registry.get(id)
    if (sandbox?.state === 'running') ctx.providers.of(sandbox)
    if (!connection || sandbox?.state !== 'running') throw unusableSandbox(id, sandbox)
    const deadlineAt = ctx.clock.now() + ttlMs
    if (o.onlyLonger && sandbox.deadlineAt >= deadlineAt) return sandbox
    const extended = ctx.registry.update(id, { deadlineAt })
    await ctx.providers.of(sandbox).deadlines?.extend(id, deadlineAt, CALL)
    await connection.guest.lease?.renew(leaseOf(presentLifetime(ctx, sandbox), ttlMs), CALL)
    ctx.registry.appendEvent(id, 'sandbox.extended', { deadlineAt })
    return extended
  })
}

/** The time that a sandbox has left, or the shortest that can be set. */
export function remainingMs({ clock }: Context, { deadlineAt }: Sandbox): number {
  return Math.max(SHORTEST_TTL_MS, deadlineAt - clock.now())
}

export function checkTtl(ttlMs: number): void {
  if (Number.isInteger(ttlMs) && ttlMs >= SHORTEST_TTL_MS && ttlMs <= LONGEST_TTL_MS) return
  throw invalid('lifetime.ttl', 'the time to live must be from 1 second to 30 days')
}
