import { isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { isEnded } from '../../core/lifecycle.ts'
import type { Ending, Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import { CALL } from '../call.ts'
import type { Context, StillWanted } from '../context.ts'
import { closeLink } from '../network/egress-link.ts'
import { releaseLayers } from '../snapshots/imported-layers.ts'
import { requireSandbox } from './require-sandbox.ts'

/**
 * Destroys a sandbox. Idempotent. If the provider does not answer, the sandbox stays `destroying`, the sweep
 * tries again, and the caller gets `unavailable`: a sandbox is never reported as gone while it may exist.
 */
export async function destroy(
  ctx: Context,
  id: SandboxId,
  ending?: Ending,
  isStillWanted?: StillWanted,
): Promise<Sandbox | undefined> {
  // Services may take minutes to get ready, and hold the lock meanwhile.
  if (!isStillWanted) ctx.startingServices.get(id)?.abort()
  return ctx.lock.run(id, async () => {
    const sandbox = ctx.registry.get(id)
    if (!sandbox || sandbox.endedAt !== undefined || isEnded(sandbox.state)) return sandbox
    if (isStillWanted && !(await isStillWanted())) return sandbox
    return destroyLocked(ctx, sandbox, ending)
  })
}

/** The work of `destroy`. Called under the lock of the sandbox. */
export async function destroyLocked(ctx: Context, sandbox: Sandbox, ending?: Ending): Promise<Sandbox> {
  const { id } = sandbox
  const isIntended = storeIntent(ctx, sandbox, ending)
  failpoint('destroy.intended')
  disconnect(ctx, id)
  await ctx.providers.of(sandbox).destroy(id, CALL)
  failpoint('destroy.removed')
  if (!isIntended) storeIntent(ctx, sandbox, ending)
  const ended = ctx.registry.transition(id, 'destroyed')
  await ctx.registry.synced()
  await releaseLayers(ctx, sandbox)
  return ended
}

/**
 * Stores the intent. Returns false if the disk is full: destroying frees space, so it goes on. After a crash
 * the sweep finds the record of a sandbox that no longer exists.
 */
function storeIntent(ctx: Context, { id, state }: Sandbox, ending: Ending | undefined): boolean {
  if (state === 'destroying') return true
  try {
    ctx.registry.transition(id, 'destroy', ending ? { ending } : {})
    return true
  } catch (error) {
    if (!isAgentPodError(error) || error.reason !== 'disk.full') throw error
    ignore(ctx.log, error, `the disk is full; destroying ${id} anyway`)
    return false
  }
}

/**
 * Removes what a failed sandbox left at the provider. On failure the sweep tries again. Called under the lock
 * of the sandbox.
 */
export async function cleanUp(ctx: Context, id: SandboxId): Promise<void> {
  disconnect(ctx, id)
  try {
    await ctx.providers.of(requireSandbox(ctx, id)).destroy(id, CALL)
    ctx.registry.markCleaned(id)
  } catch (error) {
    ignore(ctx.log, error, `the sweep will remove what is left of ${id}`)
  }
}

/** Cuts every stream into and out of the sandbox, and drops its connections. */
export function disconnect(ctx: Context, id: SandboxId): void {
  closeLink(ctx, id)
  const connection = ctx.connections.get(id) ?? ctx.pausedConnections.get(id)
  if (!connection) return
  ctx.connections.delete(id)
  ctx.pausedConnections.delete(id)
  connection.ended.abort()
  connection.guest.close()
}
