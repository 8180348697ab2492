/** Stopping a sandbox (processes end, files stay) and starting it again. */
import type { SandboxId } from '../../core/id.ts'
import type { Ending, Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import { CREATE } from '../call.ts'
import type { Context, StillWanted } from '../context.ts'
import { mountsOf } from '../volumes/volume.ts'
import { activate, createPlan } from './create.ts'
import { disconnect } from './destroy.ts'
import { requireSandbox } from './require-sandbox.ts'
import { stopServices } from './services.ts'

/** Idempotent. If the provider does not answer, the sandbox stays `stopping` and the sweep tries again. */
export async function stop(
  ctx: Context,
  id: SandboxId,
  ending?: Ending,
  isStillWanted?: StillWanted,
): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const sandbox = requireSandbox(ctx, id)
    if (sandbox.state === 'stopped') return sandbox
    ctx.providers.group(sandbox, 'stopping')
    if (isStillWanted && !(await isStillWanted())) return sandbox
    if (sandbox.state !== 'stopping') ctx.registry.transition(id, 'stop', { ending })
    failpoint('stop.intended')
    await stopServices(ctx, sandbox)
    return finishStop(ctx, id)
  })
}

/** From `stopping`, or from a failed `starting`, to `stopped`. Called under the lock of the sandbox. */
export async function finishStop(ctx: Context, id: SandboxId): Promise<Sandbox> {
  disconnect(ctx, id)
  // The provider flushes the files to disk first, so this may take longer.
  await ctx.providers.group(requireSandbox(ctx, id), 'stopping').stop(id, CREATE)
  failpoint('stop.ended')
  return ctx.registry.transition(id, 'stopped')
}

/**
 * Idempotent. The sandbox gets `ttlMs` from now, or its full time to live. On failure it is stopped as
 * before.
 */
export async function start(ctx: Context, id: SandboxId, ttlMs?: number): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const before = requireSandbox(ctx, id)
    if (before.state === 'running') return before
    const stopping = ctx.providers.group(before, 'stopping')
    const root = before.root ?? {}
    const deadlineAt = ctx.clock.now() + (ttlMs ?? before.spec.lifetime.ttlMs)
    const sandbox = ctx.registry.transition(id, 'start', { deadlineAt, ending: undefined })
    failpoint('start.intended')
    try {
      const created = await stopping.start(
        createPlan(ctx, sandbox, { root, required: [], mounts: mountsOf(sandbox.spec) }),
        CREATE,
      )
      failpoint('start.made')
      return await activate(ctx, sandbox, created, { deadlineAt, event: 'started' })
    } catch (error) {
      await finishStop(ctx, id).catch((unhalted) =>
        ignore(ctx.log, unhalted, `the sweep will undo the failed start of ${id}`),
      )
      throw error
    }
  })
}
