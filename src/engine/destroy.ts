import { isAgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import { isEnded } from '../core/lifecycle.ts'
import type { Ending, Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { CALL } from './call.ts'
import type { Context, StillWanted } from './context.ts'
import { releaseLayers } from './imported-layers.ts'
import { closeLink } from './link.ts'
import { needSandbox } from './need.ts'

/**
 * Ends a sandbox; a second call gives the same answer. When the provider cannot be reached the sandbox stays
 * `destroying`, the sweep tries again, and the caller hears `unavailable`: never a false "gone".
 */
export async function destroy(
  ctx: Context,
  id: SandboxId,
  ending?: Ending,
  isStillWanted?: StillWanted,
): Promise<Sandbox | undefined> {
  return ctx.lock.run(id, async () => {
    const sandbox = ctx.ledger.get(id)
    if (!sandbox || sandbox.endedAt !== undefined || isEnded(sandbox.state)) return sandbox
    if (isStillWanted && !(await isStillWanted())) return sandbox
    return end(ctx, sandbox, ending)
  })
}

/** The work of destroy. Called under the sandbox's lock. */
export async function end(ctx: Context, sandbox: Sandbox, ending?: Ending): Promise<Sandbox> {
  const { id } = sandbox
  const isIntended = intend(ctx, sandbox, ending)
  failpoint('destroy.intended')
  release(ctx, id)
  await ctx.providers.of(sandbox).destroy(id, CALL)
  failpoint('destroy.removed')
  if (!isIntended) intend(ctx, sandbox, ending)
  const ended = ctx.ledger.move(id, 'destroyed')
  await releaseLayers(ctx, sandbox)
  return ended
}

/**
 * Stores the intent, or answers false when the disk is full: destroying is then what makes room, and a crash on the way is found by the
 * sweep as a sandbox that is no more.
 */
function intend(ctx: Context, { id, state }: Sandbox, ending: Ending | undefined): boolean {
  if (state === 'destroying') return true
  try {
    ctx.ledger.move(id, 'destroy', ending ? { ending } : {})
    return true
  } catch (error) {
    if (!isAgentPodError(error) || error.reason !== 'disk.full') throw error
    ignore(ctx.log, error, `the disk is full; ${id} is destroyed all the same`)
    return false
  }
}

/** Removes what a failed sandbox left outside. When that fails, the sweep tries again. Called under the sandbox's lock. */
export async function cleanUp(ctx: Context, id: SandboxId): Promise<void> {
  release(ctx, id)
  try {
    await ctx.providers.of(needSandbox(ctx, id)).destroy(id, CALL)
    ctx.ledger.settle(id)
  } catch (error) {
    ignore(ctx.log, error, `remains of ${id} are left for the sweep`)
  }
}

/** Cuts every stream into the sandbox and out of it, and forgets the ways. */
export function release(ctx: Context, id: SandboxId): void {
  closeLink(ctx, id)
  const live = ctx.live.get(id) ?? ctx.frozen.get(id)
  if (!live) return
  ctx.live.delete(id)
  ctx.frozen.delete(id)
  live.ended.abort()
  live.guest.close()
}
