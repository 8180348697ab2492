/**
 * Layers of built environments: snapshots that other sandboxes use. `build/` makes them; which sandboxes use
 * them is known here.
 */
import type { Environment } from '../../core/environment.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { SandboxId, SnapshotId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { RootRef } from '../../core/provider.ts'
import { type LayerInfo, PREPARED_LABEL, type Snapshot } from '../../core/snapshot.ts'
import { ignore } from '../../telemetry/log.ts'
import type { Context } from '../context.ts'
import { removeSnapshot, takeSnapshot } from './snapshot.ts'
import type { Layer } from './snapshot-registry.ts'

/**
 * SECURITY: the owner of layers and of build sandboxes. It is no API key, so no caller can enter a build
 * sandbox. The content of a layer follows from its key and is shared by everybody who builds the same, so
 * nobody may change a sandbox while it becomes a layer.
 */
export const LAYER_OWNER = 'build'

/** The root up to and including a layer, or another snapshot. */
export function rootWithLayer({ id, root }: Pick<Layer, 'id' | 'root'>): RootRef {
  const below: RootRef = root ?? {}
  return { ...below, over: [...(below.over ?? []), id] }
}

/**
 * SECURITY: a layer contains the inputs of its step, so only owners who supplied the same inputs may use it.
 */
export function mayUseLayer(who: Principal, { layer }: Layer): boolean {
  return who.isAdmin || layer.owners.includes(who.owner)
}

/** `not_found` if it was never built, is gone, or was built by others only. */
export function requireLayer(ctx: Context, key: string, who: Principal): Layer {
  const layer = ctx.snapshotRegistry.layer(key)
  if (layer && mayUseLayer(who, layer)) return layer
  throw new AgentPodError({
    code: 'not_found',
    reason: 'environment.unknown',
    message: `environment ${key.slice(0, 12)} is not built on this server`,
    hint: '`agentpod build` builds it',
  })
}

/** The root of a sandbox that starts from a built environment. */
export function environmentRoot(ctx: Context, key: string, who: Principal): { layer: Layer; root: RootRef } {
  const layer = requireLayer(ctx, key, who)
  ctx.snapshotRegistry.touch(layer, ctx.clock.now())
  return { layer, root: rootWithLayer(layer) }
}

/** Adds layers of other recipes to a root, unless it has them. Also returns which were added. */
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
    const layer = requireLayer(ctx, key, who)
    if (there.has(layer.id)) continue
    if (layer.provider !== below.provider) throw onAnotherProvider(layer, below.provider)
    if (!isOnBase(layer, below.environment)) throw onAnotherBase(key)
    ctx.snapshotRegistry.touch(layer, ctx.clock.now())
    there.add(layer.id)
    layers.push(layer)
  }
  return layers.length === 0 ? { layers, root } : { layers, root: { ...root, over: [...there] } }
}

function isOnBase({ layer }: Layer, { base, image }: Environment): boolean {
  return layer.base.name === base && layer.base.image === image
}

/** A layer contains paths of its kind of base; on another kind none of them would be visible. */
function onAnotherBase(key: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'environment.extras',
    message: `extra ${key.slice(0, 12)} was built on another base than that of the sandbox`,
    hint: 'build its recipe on the base of the sandbox',
  })
}

function onAnotherProvider({ layer, provider }: Layer, wanted: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'environment.provider',
    message: `extra ${layer.key.slice(0, 12)} was built on ${provider}, but the sandbox is on ${wanted}`,
    hint: `build its recipe on ${wanted}`,
  })
}

/**
 * Stores what a stopped sandbox wrote as a layer. Returns the existing layer if the same was built meanwhile.
 */
export async function createLayer(ctx: Context, id: SandboxId, info: LayerInfo): Promise<Layer> {
  const earlier = ctx.snapshotRegistry.layer(info.key)
  if (earlier) return earlier
  const taken = await takeSnapshot(ctx, id, { owner: LAYER_OWNER, layer: info })
  return { ...taken, layer: info }
}

export function allLayers(ctx: Context): Layer[] {
  return ctx.snapshotRegistry
    .all()
    .flatMap((one) => (one.layer && one.state === 'ready' ? [{ ...one, layer: one.layer }] : []))
}

/**
 * The layers that sandboxes (also unfinished ones) and snapshots use. A layer below another layer alone is
 * not in use.
 */
export function layersInUse(ctx: Context): Set<SnapshotId> {
  const roots = [
    ...ctx.registry.existing().map(({ root }) => root),
    ...ctx.snapshotRegistry.all().flatMap((one) => (one.layer || isReplaceable(ctx, one) ? [] : [one.root])),
  ]
  const held = ctx.snapshotRegistry
    .all()
    .flatMap(({ id, layer }) => (layer && ctx.snapshotRegistry.isUsed(id) ? [id] : []))
  return new Set([...roots.flatMap((root) => root?.over ?? []), ...held])
}

/**
 * A prepared snapshot is made again when needed, so it protects no layer, unless a sandbox is being made from
 * it.
 */
function isReplaceable(ctx: Context, { id, labels }: Snapshot): boolean {
  return labels[PREPARED_LABEL] !== undefined && !ctx.snapshotRegistry.isUsed(id)
}

export interface LayerDependents {
  readonly sandboxes: readonly string[]
  readonly snapshots: readonly string[]
}

/** The sandboxes and snapshots that use a layer, by name, or by id if they have no name. */
export function layerDependents(ctx: Context, { id }: Layer): LayerDependents {
  const usesLayer = ({ root }: { readonly root?: RootRef | undefined }): boolean =>
    root?.over?.includes(id) ?? false
  const called = (one: { readonly id: string; readonly name: string | undefined }): string =>
    one.name ?? one.id
  return {
    sandboxes: ctx.registry.existing().filter(usesLayer).map(called),
    snapshots: ctx.snapshotRegistry
      .all()
      .filter((one) => !one.layer && !isReplaceable(ctx, one) && usesLayer(one))
      .map(called),
  }
}

/** Removes a layer. False if something uses it. */
export async function removeLayer(ctx: Context, layer: Layer): Promise<boolean> {
  const replaceable = ctx.snapshotRegistry
    .all()
    .filter((one) => isReplaceable(ctx, one) && one.root?.over?.includes(layer.id))
  for (const one of replaceable) await removeSnapshot(ctx, one)
  const isBelow = ctx.snapshotRegistry.all().some(({ root }) => root?.over?.includes(layer.id))
  if (isBelow || layersInUse(ctx).has(layer.id)) return false
  try {
    await removeSnapshot(ctx, layer)
    return true
  } catch (error) {
    if (!isAgentPodError(error, 'conflict')) throw error
    // It is marked for removal; the sweep removes it when nothing uses it any more.
    ignore(ctx.log, error, `layer ${layer.layer.key} is still in use`)
    return false
  }
}
