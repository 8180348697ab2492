/** Layers that came with an archive are nobody's base: they go with the last sandbox and snapshot that stand on them. */
import { isAgentPodError } from '../core/error.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import { ignore } from '../telemetry/log.ts'
import { CALL } from './call.ts'
import type { Context } from './context.ts'

const key = ({ name }: Provider, digest: string): string => `imported-layer:${name}:${digest}`

/** Written before the layer is there, so that it is known whatever happens. */
export function noteImported(ctx: Context, provider: Provider, digest: string): void {
  ctx.sandboxes.setMeta(key(provider, digest), String(ctx.clock.now()))
}

/** Removes those that nothing stands on any more. What cannot be removed now is tried again with the next that goes. */
export async function releaseLayers(
  ctx: Context,
  record: { readonly provider: string; readonly root: RootRef | undefined },
): Promise<void> {
  const provider = ctx.providers.of(record)
  const { layers } = provider
  if (!layers || !record.root) return
  for (const digest of layers.of(record.root)) {
    if (ctx.sandboxes.meta(key(provider, digest)) === undefined) continue
    try {
      await layers.remove(digest, CALL)
    } catch (error) {
      if (!isAgentPodError(error, 'conflict')) ignore(ctx.log, error, `layer ${digest} stays for now`)
    }
  }
}
