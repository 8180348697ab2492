/** Layers of built environments: snapshots that other sandboxes stand on. What makes them is `build/`; who stands on them is known here. */
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { SandboxId, SnapshotId } from '../core/id.ts'
import type { RootPlan } from '../core/provider.ts'
import type { LayerInfo, Snapshot } from '../core/snapshot.ts'
import { ignore } from '../telemetry/log.ts'
import type { Context } from './context.ts'
import { removeSnapshot, takeSnapshot } from './snapshot.ts'

export type Layer = Snapshot & { readonly layer: LayerInfo }

/** Nobody's in particular: what is in a layer follows from what it is known by. */
export const LAYER_OWNER = 'build'

/** The files up to and with a layer. */
export function rootOf(layer: Layer): RootPlan {
  const below = layer.root ?? { kind: 'host' as const }
  return { ...below, over: [...(below.over ?? []), layer.id] }
}

/** `not_found` where it was never built, or is gone. */
export function needLayer(ctx: Context, key: string): Layer {
  const layer = ctx.album.layer(key)
  if (layer) return layer
  throw new AgentPodError({
    code: 'not_found',
    reason: 'environment.unknown',
    message: `the environment ${key.slice(0, 12)} is not built here`,
    hint: '`agentpod build` builds it',
  })
}

/** The root of a sandbox that begins with a built environment. */
export function environmentRoot(ctx: Context, key: string): { layer: Layer; root: RootPlan } {
  const layer = needLayer(ctx, key)
  ctx.album.touch(layer, ctx.clock.now())
  return { layer, root: rootOf(layer) }
}

/** What a stopped sandbox wrote becomes a layer. Where the same was built meanwhile, that one is answered. */
export async function keepLayer(ctx: Context, id: SandboxId, info: LayerInfo): Promise<Layer> {
  const earlier = ctx.album.layer(info.key)
  if (earlier) return earlier
  const taken = await takeSnapshot(ctx, id, { owner: LAYER_OWNER, layer: info })
  return { ...taken, layer: info }
}

export function allLayers(ctx: Context): Layer[] {
  return ctx.album
    .all()
    .flatMap((one) => (one.layer && one.state === 'ready' ? [{ ...one, layer: one.layer }] : []))
}

/** Which snapshots something stands on: living sandboxes, and snapshots, layers above among them. */
export function layersInUse(ctx: Context): Set<SnapshotId> {
  const roots = [...ctx.ledger.living().map(({ root }) => root), ...ctx.album.all().map(({ root }) => root)]
  return new Set(roots.flatMap((root) => root?.over ?? []))
}

/** Removes a layer that nothing stands on. False where something does by now. */
export async function removeLayer(ctx: Context, layer: Layer): Promise<boolean> {
  if (layersInUse(ctx).has(layer.id) || ctx.album.isUsed(layer.id)) return false
  try {
    await removeSnapshot(ctx, layer)
    return true
  } catch (error) {
    if (!isAgentPodError(error, 'conflict')) throw error
    // It is marked to be removed; the sweep does it when the last that stands on it is gone.
    ignore(ctx.log, error, `layer ${layer.layer.key} is still stood on`)
    return false
  }
}
