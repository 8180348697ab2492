/** Layers of built environments: snapshots that other sandboxes stand on. What makes them is `build/`; who stands on them is known here. */
import type { Environment } from '../core/environment.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { SandboxId, SnapshotId } from '../core/id.ts'
import type { Principal } from '../core/principal.ts'
import type { RootRef } from '../core/provider.ts'
import { type LayerInfo, PREPARED_LABEL, type Snapshot } from '../core/snapshot.ts'
import { ignore } from '../telemetry/log.ts'
import type { Layer } from './album.ts'
import type { Context } from './context.ts'
import { removeSnapshot, takeSnapshot } from './snapshot.ts'

/**
 * SECURITY: whose layers are, and the sandboxes that build them: no key's. What is in a layer follows from what it is known by and is shared
 * by everybody who has the same built, so nobody may get into a sandbox while it becomes one.
 */
export const LAYER_OWNER = 'build'

/** The files up to and with a layer. */
export function rootOf(layer: Layer): RootRef {
  const below: RootRef = layer.root ?? {}
  return { ...below, over: [...(below.over ?? []), layer.id] }
}

/** SECURITY: a layer holds what its step was given, such as the inputs of a setup: it is for those who have given the same. */
export function mayUse(who: Principal, { layer }: Layer): boolean {
  return who.isAdmin || layer.owners.includes(who.owner)
}

/** `not_found` where it was never built, is gone, or was built by others only. */
export function needLayer(ctx: Context, key: string, who: Principal): Layer {
  const layer = ctx.album.layer(key)
  if (layer && mayUse(who, layer)) return layer
  throw new AgentPodError({
    code: 'not_found',
    reason: 'environment.unknown',
    message: `the environment ${key.slice(0, 12)} is not built here`,
    hint: '`agentpod build` builds it',
  })
}

/** The root of a sandbox that begins with a built environment. */
export function environmentRoot(ctx: Context, key: string, who: Principal): { layer: Layer; root: RootRef } {
  const layer = needLayer(ctx, key, who)
  ctx.album.touch(layer, ctx.clock.now())
  return { layer, root: rootOf(layer) }
}

/** A root with layers of other recipes over it, as far as they are not in it already, and which of them were put there. */
export function withExtras(
  ctx: Context,
  below: { readonly root: RootRef; readonly environment: Environment; readonly provider: string },
  keys: readonly string[],
  who: Principal,
): { layers: readonly Layer[]; root: RootRef } {
  const { root } = below
  const there = new Set(root.over)
  const layers: Layer[] = []
  for (const key of keys) {
    const layer = needLayer(ctx, key, who)
    if (there.has(layer.id)) continue
    if (layer.provider !== below.provider) throw onAnotherProvider(layer, below.provider)
    if (!isOnBase(layer, below.environment)) throw onAnotherBase(key)
    ctx.album.touch(layer, ctx.clock.now())
    there.add(layer.id)
    layers.push(layer)
  }
  return layers.length === 0 ? { layers, root } : { layers, root: { ...root, over: [...there] } }
}

function isOnBase({ layer }: Layer, { base, image }: Environment): boolean {
  return layer.base.name === base && layer.base.image === image
}

/** A layer has a place for each directory that its base is put together of: on another kind of base nothing of it would be seen. */
function onAnotherBase(key: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'environment.extras',
    message: `the extra ${key.slice(0, 12)} was built on another base than the sandbox has`,
    hint: 'build its recipe on the base of the sandbox',
  })
}

function onAnotherProvider({ layer, provider }: Layer, wanted: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'environment.provider',
    message: `the extra ${layer.key.slice(0, 12)} was built on ${provider}, and the sandbox is on ${wanted}`,
    hint: `build its recipe on ${wanted}`,
  })
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

/** Which layers something else than a layer stands on: living sandboxes, those that are being made, and snapshots. */
export function layersInUse(ctx: Context): Set<SnapshotId> {
  const roots = [
    ...ctx.ledger.living().map(({ root }) => root),
    ...ctx.album.all().flatMap((one) => (one.layer || isPassed(ctx, one) ? [] : [one.root])),
  ]
  const held = ctx.album.all().flatMap(({ id, layer }) => (layer && ctx.album.isUsed(id) ? [id] : []))
  return new Set([...roots.flatMap((root) => root?.over ?? []), ...held])
}

/** One that is made again at need, and that nothing is made from at this moment. */
function isPassed(ctx: Context, { id, labels }: Snapshot): boolean {
  return labels[PREPARED_LABEL] !== undefined && !ctx.album.isUsed(id)
}

/** What stands on a layer, as its owner calls it. */
export function standingOn(ctx: Context, { id }: Layer): { sandboxes: string[]; snapshots: string[] } {
  const stands = ({ root }: { readonly root?: RootRef | undefined }): boolean =>
    root?.over?.includes(id) ?? false
  const called = (one: { readonly id: string; readonly name: string | undefined }): string =>
    one.name ?? one.id
  return {
    sandboxes: ctx.ledger.living().filter(stands).map(called),
    snapshots: ctx.album
      .all()
      .filter((one) => !one.layer && !isPassed(ctx, one) && stands(one))
      .map(called),
  }
}

/** Removes a layer that nothing stands on. False where something does by now. */
export async function removeLayer(ctx: Context, layer: Layer): Promise<boolean> {
  const passed = ctx.album.all().filter((one) => isPassed(ctx, one) && one.root?.over?.includes(layer.id))
  for (const one of passed) await removeSnapshot(ctx, one)
  const isBelow = ctx.album.all().some(({ root }) => root?.over?.includes(layer.id))
  if (isBelow || layersInUse(ctx).has(layer.id)) return false
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
