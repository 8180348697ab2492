/** Layers that came with an archive are nobody's base: they go with the last sandbox and snapshot that stand on them. */
import { isAgentPodError } from '../core/error.ts'
import type { RootPlan } from '../core/provider.ts'
import { ignore } from '../telemetry/log.ts'
import { CALL, type Context } from './context.ts'

const key = (digest: string): string => `imported-layer:${digest}`

/** Written before the layer is there, so that it is known whatever happens. */
export function noteImported(ctx: Context, digest: string): void {
  ctx.sandboxes.setMeta(key(digest), String(ctx.clock.now()))
}

/** Removes those that nothing stands on any more. What cannot be removed now is tried again with the next that goes. */
export async function releaseLayers(ctx: Context, root: RootPlan | undefined): Promise<void> {
  if (root?.kind !== 'layers' || !ctx.provider.layers) return
  for (const digest of root.layers) {
    if (ctx.sandboxes.meta(key(digest)) === undefined) continue
    try {
      await ctx.provider.layers.remove(digest, CALL)
    } catch (error) {
      if (!isAgentPodError(error, 'conflict')) ignore(ctx.log, error, `layer ${digest} stays for now`)
    }
  }
}
