/**
 * Layers of built environments. `build/` makes them; the engine knows which sandboxes and snapshots use them.
 */
import type { SandboxId, SnapshotId } from '../../core/id.ts'
import type { LayerInfo } from '../../core/snapshot.ts'
import type { Context } from '../context.ts'
import {
  allLayers,
  createLayer,
  type LayerDependents,
  layerDependents,
  layersInUse,
  removeLayer,
} from './layers.ts'
import type { Layer } from './snapshot-registry.ts'

export class LayerOperations {
  readonly #ctx: Context

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** A finished layer by its key. */
  get(key: string): Layer | undefined {
    return this.#ctx.snapshotRegistry.layer(key)
  }

  list(): Layer[] {
    return allLayers(this.#ctx)
  }

  /** The layers that sandboxes or snapshots use. A layer below another layer alone is not in use. */
  inUse(): Set<SnapshotId> {
    return layersInUse(this.#ctx)
  }

  /** The names of the sandboxes and snapshots that use a layer. */
  dependents(layer: Layer): LayerDependents {
    return layerDependents(this.#ctx, layer)
  }

  /** Records another owner who has built the same layer. */
  addOwner(layer: Layer, owner: string): Layer {
    return this.#ctx.snapshotRegistry.addOwner(layer, owner)
  }

  /** Stores the files that a sandbox wrote as a layer. The sandbox must be stopped. */
  create(id: SandboxId, info: LayerInfo): Promise<Layer> {
    return createLayer(this.#ctx, id, info)
  }

  /** False if something uses it. */
  remove(layer: Layer): Promise<boolean> {
    return removeLayer(this.#ctx, layer)
  }
}
