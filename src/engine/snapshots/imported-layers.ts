/**
 * Layers that came with an archive are no base of this server. They are removed with the last sandbox or
 * snapshot that uses them.
 */
import { isAgentPodError } from '../../core/error.ts'
import type { Provider, RootRef } from '../../core/provider.ts'
import { ignore } from '../../telemetry/log.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'

const key = ({ name }: Provider, digest: string): string => `imported-layer:${name}:${digest}`

/** Written before the layer is imported, so that it is known even after a crash. */
export function noteImported(ctx: Context, provider: Provider, digest: string): void {
  ctx.sandboxes.setMeta(key(provider, digest), String(ctx.clock.now()))
}

/**
 * Removes the imported layers that are no longer used. A layer that cannot be removed now is tried again with
 * the next removal.
 */
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
      if (!isAgentPodError(error, 'conflict'))
        ignore(ctx.log, error, `layer ${digest} could not be removed yet`)
    }
  }
}
