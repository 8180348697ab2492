import type { SandboxId } from '../../core/id.ts'
import type { Context, GuestConnection } from '../context.ts'
import { resume } from './pause.ts'
import { requireSandbox, unusableSandbox } from './require-sandbox.ts'
import { start } from './stop.ts'

/** Give up after three attempts: if the state keeps changing, other callers are fighting over it. */
const TRIES = 3

/**
 * The connection to a sandbox, which is resumed or started first if that is allowed. Waits for operations
 * under way.
 */
export async function connectOrWake(
  ctx: Context,
  id: SandboxId,
  mayWake: () => boolean,
): Promise<GuestConnection> {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const connection = ctx.connections.get(id)
    if (connection) return connection
    const { state, spec } = requireSandbox(ctx, id)
    // Asked again each time, because the answer may change while an operation is under way.
    const isWoken = spec.lifetime.autoResume && mayWake()
    if (state === 'paused' && isWoken) await resume(ctx, id)
    else if (state === 'stopped' && isWoken) await start(ctx, id)
    else await ctx.lock.run(id, async () => undefined)
  }
  const connection = ctx.connections.get(id)
  if (connection) return connection
  const sandbox = ctx.registry.get(id)
  if (sandbox?.state === 'running') ctx.providers.of(sandbox)
  throw unusableSandbox(id, sandbox)
}
