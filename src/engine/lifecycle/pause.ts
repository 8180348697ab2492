/** Pausing and resuming: memory is kept, and no time counts meanwhile. */
import { AgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import { CALL } from '../call.ts'
import type { Context, GuestConnection, StillWanted } from '../context.ts'
import { presentLifetime } from '../groups/follower-lifetime.ts'
import { openLink } from '../network/egress-link.ts'
import { connectionTo } from './guest-connection.ts'
import { leaseOf } from './lease.ts'
import { requireSandbox } from './require-sandbox.ts'

/** Idempotent. Open streams stay open and are silent until the sandbox is resumed. */
export async function pause(ctx: Context, id: SandboxId, isStillWanted?: StillWanted): Promise<Sandbox> {
  const pausing = ctx.providers.group(requireSandbox(ctx, id), 'pausing')
  return ctx.lock.run(id, async () => {
    const sandbox = requireSandbox(ctx, id)
    if (sandbox.state === 'paused') return sandbox
    const connection = ctx.connections.get(id)
    // From here on calls wait for the pause to end and then wake the sandbox. A call that was let in now
    // would be frozen halfway.
    ctx.connections.delete(id)
    if (connection) ctx.pausedConnections.set(id, connection)
    try {
      if (isStillWanted && !(await isStillWanted())) return reopen(ctx, sandbox)
      ctx.registry.transition(id, 'pause')
      failpoint('pause.intended')
    } catch (error) {
      reopen(ctx, sandbox)
      throw error
    }
    try {
      // The clock of a frozen guest runs on; with a lease it would end the sandbox as soon as it is resumed.
      await connection?.guest.lease?.renew({ remainingMs: 0, idleMs: 0 }, CALL)
      await pausing.pause(id, CALL)
    } catch (error) {
      await undoPause(ctx, id)
      throw error
    }
    failpoint('pause.frozen')
    return ctx.registry.transition(id, 'paused')
  })
}

/** Nothing was changed: calls are let in again. */
function reopen(ctx: Context, sandbox: Sandbox): Sandbox {
  const connection = ctx.pausedConnections.get(sandbox.id)
  ctx.pausedConnections.delete(sandbox.id)
  if (connection) ctx.connections.set(sandbox.id, connection)
  return sandbox
}

/** After a failed pause the sandbox runs again. If that fails too, the sweep repairs it. */
async function undoPause(ctx: Context, id: SandboxId): Promise<void> {
  try {
    const sandbox = requireSandbox(ctx, id)
    await finishResume(ctx, sandbox, sandbox.deadlineAt)
  } catch (error) {
    ignore(ctx.log, error, `the sweep will undo the failed pause of ${id}`)
  }
}

/** Idempotent. The sandbox gets `ttlMs` from now, or its full time to live. */
export async function resume(ctx: Context, id: SandboxId, ttlMs?: number): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const sandbox = requireSandbox(ctx, id)
    if (sandbox.state === 'running') return sandbox
    ctx.registry.transition(id, 'resume')
    failpoint('resume.intended')
    const deadlineAt = ctx.clock.now() + (ttlMs ?? sandbox.spec.lifetime.ttlMs)
    return finishResume(ctx, sandbox, deadlineAt)
  })
}

/** From `resuming`, or from a failed `pausing`, to `running`. Called under the lock of the sandbox. */
export async function finishResume(ctx: Context, sandbox: Sandbox, deadlineAt: number): Promise<Sandbox> {
  const { id } = sandbox
  await ctx.providers.group(sandbox, 'pausing').resume(id, deadlineAt, CALL)
  failpoint('resume.thawed')
  const connection = ctx.pausedConnections.get(id) ?? ctx.connections.get(id) ?? openConnection(ctx, sandbox)
  await connection.guest.lease?.renew(
    leaseOf(presentLifetime(ctx, sandbox), deadlineAt - ctx.clock.now()),
    CALL,
  )
  const running = ctx.registry.transition(id, 'resumed', { deadlineAt })
  ctx.pausedConnections.delete(id)
  ctx.connections.set(id, connection)
  return running
}

/** Connects to a sandbox that an earlier server started, and opens its egress link. */
export function openConnection(ctx: Context, sandbox: Sandbox): GuestConnection {
  const { id, handle } = sandbox
  if (!handle) {
    throw new AgentPodError({
      code: 'internal',
      reason: 'sandbox.handle',
      message: `the record of ${id} has no handle`,
    })
  }
  openLink(ctx, sandbox)
  return connectionTo(ctx.providers.of(sandbox).open(handle), sandbox.spec.resources)
}
