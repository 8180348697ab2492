/** Ending processes and keeping files, and running again on them. */
import type { SandboxId } from '../core/id.ts'
import type { Ending, Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { CREATE } from './call.ts'
import type { Context, StillWanted } from './context.ts'
import { enter, planOf } from './create.ts'
import { release } from './destroy.ts'
import { needSandbox } from './need.ts'
import { stopServices } from './services.ts'

/** Idempotent. When the provider cannot be reached it stays `stopping`, and the sweep goes on. */
export async function stop(
  ctx: Context,
  id: SandboxId,
  ending?: Ending,
  isStillWanted?: StillWanted,
): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const sandbox = needSandbox(ctx, id)
    if (sandbox.state === 'stopped') return sandbox
    ctx.providers.group(sandbox, 'stopping')
    if (isStillWanted && !(await isStillWanted())) return sandbox
    if (sandbox.state !== 'stopping') ctx.ledger.move(id, 'stop', { ending })
    failpoint('stop.intended')
    await stopServices(ctx, sandbox)
    return halt(ctx, id)
  })
}

/** From `stopping`, or from a `starting` that is undone, to `stopped`. Called under the sandbox's lock. */
export async function halt(ctx: Context, id: SandboxId): Promise<Sandbox> {
  release(ctx, id)
  // What the sandbox wrote is brought to the disk first.
  await ctx.providers.group(needSandbox(ctx, id), 'stopping').stop(id, CREATE)
  failpoint('stop.ended')
  return ctx.ledger.move(id, 'stopped')
}

/** Idempotent. The sandbox gets `ttlMs` from now, or its whole time to live again; on failure it is stopped as before. */
export async function start(ctx: Context, id: SandboxId, ttlMs?: number): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const before = needSandbox(ctx, id)
    if (before.state === 'running') return before
    const stopping = ctx.providers.group(before, 'stopping')
    const root = before.root ?? {}
    const deadlineAt = ctx.clock.now() + (ttlMs ?? before.spec.lifetime.ttlMs)
    const sandbox = ctx.ledger.move(id, 'start', { deadlineAt, ending: undefined })
    failpoint('start.intended')
    try {
      const created = await stopping.start(planOf(ctx, sandbox, { root, required: [] }), CREATE)
      failpoint('start.made')
      return await enter(ctx, sandbox, created, deadlineAt, 'started')
    } catch (error) {
      await halt(ctx, id).catch((unhalted) =>
        ignore(ctx.log, unhalted, `the failed start of ${id} is left for the sweep`),
      )
      throw error
    }
  })
}
