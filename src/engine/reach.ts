import type { SandboxId } from '../core/id.ts'
import type { Context, Live } from './context.ts'
import { needSandbox, notRunning } from './need.ts'
import { resume } from './pause.ts'
import { start } from './stop.ts'

/** More than two verbs that cross each other are somebody's quarrel, not something to wait for. */
const TRIES = 3

/** The way into a sandbox, which is resumed or started first where it may be. What is under way is waited for. */
export async function reach(ctx: Context, id: SandboxId, mayWake: boolean): Promise<Live> {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const live = ctx.live.get(id)
    if (live) return live
    const { state, spec } = needSandbox(ctx, id)
    const isWoken = mayWake && spec.lifetime.autoResume
    if (state === 'paused' && isWoken) await resume(ctx, id)
    else if (state === 'stopped' && isWoken) await start(ctx, id)
    else await ctx.lock.run(id, async () => undefined)
  }
  const live = ctx.live.get(id)
  if (live) return live
  const sandbox = ctx.ledger.get(id)
  if (sandbox?.state === 'running') ctx.providers.of(sandbox)
  throw notRunning(id, sandbox)
}
