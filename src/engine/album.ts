/** The one writer of snapshot records, all of which are held in memory as well. The database is written first. */
import { AgentPodError } from '../core/error.ts'
import { isSnapshotId, type SnapshotId } from '../core/id.ts'
import type { Principal } from '../core/principal.ts'
import type { Kept } from '../core/provider.ts'
import type { LayerInfo, Snapshot } from '../core/snapshot.ts'
import type { SnapshotStore } from '../store/snapshots.ts'

const TOUCH_EVERY_MS = 3_600_000

/** A snapshot that is a layer of a built environment. */
export type Layer = Snapshot & { readonly layer: LayerInfo }

export class Album {
  readonly #store: SnapshotStore
  readonly #snapshots = new Map<SnapshotId, Snapshot>()
  readonly #layers = new Map<string, SnapshotId>()
  /** How many sandboxes are being made from each at this moment, or will be. */
  readonly #uses = new Map<SnapshotId, number>()

  constructor(store: SnapshotStore) {
    this.#store = store
    for (const snapshot of store.all()) this.#remember(snapshot)
  }

  /** Stores the intent to take one. */
  begin(snapshot: Snapshot): void {
    this.#store.insert(snapshot)
    this.#remember(snapshot)
  }

  complete(snapshot: Snapshot, kept: Kept): Snapshot {
    return this.#write({ ...snapshot, ...kept, state: 'ready' })
  }

  mark(snapshot: Snapshot, state: 'deleting' | 'lost'): Snapshot {
    return this.#write({ ...snapshot, state })
  }

  forget(id: SnapshotId): void {
    this.#store.remove(id)
    const key = this.#snapshots.get(id)?.layer?.key
    if (key !== undefined && this.#layers.get(key) === id) this.#layers.delete(key)
    this.#snapshots.delete(id)
  }

  /** Every record, passing and half-made ones too, oldest first. */
  all(): Snapshot[] {
    return [...this.#snapshots.values()]
  }

  /** What a caller may see of it: finished ones that were taken to be kept. */
  list(who: Principal): Snapshot[] {
    return this.all().filter((snapshot) => isShown(snapshot) && (who.isAdmin || snapshot.owner === who.owner))
  }

  /** By id or by name; somebody else's is as unknown as one that never was. */
  get(ref: string, who: Principal): Snapshot {
    const found = this.#find(ref, who)
    if (found) return found
    throw new AgentPodError({
      code: 'not_found',
      reason: 'snapshot.unknown',
      message: `there is no snapshot ${ref}`,
      hint: '`agentpod snapshot ls` lists them',
    })
  }

  has(ref: string, who: Principal): boolean {
    return this.#find(ref, who) !== undefined
  }

  #find(ref: string, who: Principal): Snapshot | undefined {
    const visible = this.list(who)
    return (
      visible.find(({ owner, name }) => owner === who.owner && name === ref) ??
      visible.find(({ id, name }) => (isSnapshotId(ref) ? id === ref : name === ref))
    )
  }

  /** A finished layer by its key. */
  layer(key: string): Layer | undefined {
    const id = this.#layers.get(key)
    const found = id && this.#snapshots.get(id)
    return found?.layer && found.state === 'ready' ? { ...found, layer: found.layer } : undefined
  }

  /** Notes that somebody stands on a layer. */
  touch(snapshot: Layer, now: number): void {
    if (now - snapshot.layer.usedAt >= TOUCH_EVERY_MS)
      this.#write({ ...snapshot, layer: { ...snapshot.layer, usedAt: now } })
  }

  /** Notes that somebody has built a layer, or would have. */
  share(snapshot: Layer, owner: string): Layer {
    const { layer } = snapshot
    if (layer.owners.includes(owner)) return snapshot
    const shared = { ...snapshot, layer: { ...layer, owners: [...layer.owners, owner] } }
    this.#write(shared)
    return shared
  }

  /** Keeps a snapshot from being removed while sandboxes are made from it. */
  async using<T>(snapshot: Snapshot, work: () => Promise<T>): Promise<T> {
    const release = this.hold(snapshot.id)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Keeps a snapshot from being removed until what is returned is called. */
  hold(id: SnapshotId): () => void {
    this.#uses.set(id, (this.#uses.get(id) ?? 0) + 1)
    let isHeld = true
    return () => {
      const left = (this.#uses.get(id) ?? 1) - 1
      if (isHeld && left > 0) this.#uses.set(id, left)
      else if (isHeld) this.#uses.delete(id)
      isHeld = false
    }
  }

  isUsed(id: SnapshotId): boolean {
    return this.#uses.has(id)
  }

  #write(snapshot: Snapshot): Snapshot {
    this.#store.update(snapshot)
    this.#remember(snapshot)
    return snapshot
  }

  #remember(snapshot: Snapshot): void {
    this.#snapshots.set(snapshot.id, snapshot)
    if (snapshot.layer && snapshot.state === 'ready') this.#layers.set(snapshot.layer.key, snapshot.id)
  }
}

function isShown({ state, isPassing, layer }: Snapshot): boolean {
  return !isPassing && !layer && (state === 'ready' || state === 'lost')
}
