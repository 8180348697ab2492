/** Freezing and thawing: memory stays, no time counts. */
import { AgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { CALL } from './call.ts'
import type { Context, Live, StillWanted } from './context.ts'
import { leaseOf } from './lease.ts'
import { openLink } from './link.ts'
import { liveOf } from './live.ts'
import { needSandbox } from './need.ts'

/** Idempotent. Open streams stay open and are silent until it is resumed. */
export async function pause(ctx: Context, id: SandboxId, isStillWanted?: StillWanted): Promise<Sandbox> {
  const pausing = ctx.providers.group(needSandbox(ctx, id), 'pausing')
  return ctx.lock.run(id, async () => {
    const sandbox = needSandbox(ctx, id)
    if (sandbox.state === 'paused') return sandbox
    const live = ctx.live.get(id)
    // From here on a call waits for the end of this, and then wakes it: let in now, it would be frozen on its way.
    ctx.live.delete(id)
    if (live) ctx.frozen.set(id, live)
    try {
      if (isStillWanted && !(await isStillWanted())) return reopened(ctx, sandbox)
      ctx.ledger.move(id, 'pause')
      failpoint('pause.intended')
    } catch (error) {
      reopened(ctx, sandbox)
      throw error
    }
    try {
      // A frozen guest's clock runs on, and would end the sandbox at the moment it thaws.
      await live?.guest.lease?.renew({ remainingMs: 0, idleMs: 0 }, CALL)
      await pausing.pause(id, CALL)
    } catch (error) {
      await undo(ctx, id)
      throw error
    }
    failpoint('pause.frozen')
    return ctx.ledger.move(id, 'paused')
  })
}

/** Nothing has happened yet: calls are let in again. */
function reopened(ctx: Context, sandbox: Sandbox): Sandbox {
  const live = ctx.frozen.get(sandbox.id)
  ctx.frozen.delete(sandbox.id)
  if (live) ctx.live.set(sandbox.id, live)
  return sandbox
}

/** A pause that failed leaves a running sandbox; where not even that works, the sweep looks again. */
async function undo(ctx: Context, id: SandboxId): Promise<void> {
  try {
    const sandbox = needSandbox(ctx, id)
    await thaw(ctx, sandbox, sandbox.deadlineAt)
  } catch (error) {
    ignore(ctx.log, error, `the failed pause of ${id} is left for the sweep`)
  }
}

/** Idempotent. The sandbox gets `ttlMs` from now, or its whole time to live again. */
export async function resume(ctx: Context, id: SandboxId, ttlMs?: number): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const sandbox = needSandbox(ctx, id)
    if (sandbox.state === 'running') return sandbox
    ctx.ledger.move(id, 'resume')
    failpoint('resume.intended')
    const deadlineAt = ctx.clock.now() + (ttlMs ?? sandbox.spec.lifetime.ttlMs)
    return thaw(ctx, sandbox, deadlineAt)
  })
}

/** From `resuming`, or from a `pausing` that is undone, to `running`. Called under the sandbox's lock. */
export async function thaw(ctx: Context, sandbox: Sandbox, deadlineAt: number): Promise<Sandbox> {
  const { id } = sandbox
  await ctx.providers.group(sandbox, 'pausing').resume(id, deadlineAt, CALL)
  failpoint('resume.thawed')
  const live = ctx.frozen.get(id) ?? ctx.live.get(id) ?? openLive(ctx, sandbox)
  await live.guest.lease?.renew(leaseOf(sandbox.spec.lifetime, deadlineAt - ctx.clock.now()), CALL)
  const running = ctx.ledger.move(id, 'resumed', { deadlineAt })
  ctx.frozen.delete(id)
  ctx.live.set(id, live)
  return running
}

/** The way in, and the way out, of a sandbox that this process has not met yet. */
export function openLive(ctx: Context, sandbox: Sandbox): Live {
  const { id, handle } = sandbox
  if (!handle) {
    throw new AgentPodError({
      code: 'internal',
      reason: 'sandbox.handle',
      message: `${id} runs without a handle`,
    })
  }
  openLink(ctx, sandbox)
  return liveOf(ctx.providers.of(sandbox).open(handle))
}
