/**
 * The only writer of snapshot records. All of them are also held in memory; the database is written first.
 */
import { AgentPodError } from '../../core/error.ts'
import { isSnapshotId, type SnapshotId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { StoredSnapshot } from '../../core/provider.ts'
import type { LayerInfo, Snapshot, SnapshotMemory } from '../../core/snapshot.ts'
import type { SnapshotStore } from '../../store/snapshots.ts'

const TOUCH_EVERY_MS = 3_600_000

/** A snapshot that is a layer of a built environment. */
export type Layer = Snapshot & { readonly layer: LayerInfo }

export class SnapshotRegistry {
  readonly #store: SnapshotStore
  readonly #snapshots = new Map<SnapshotId, Snapshot>()
  readonly #layers = new Map<string, SnapshotId>()
  /** For each snapshot, how many sandboxes are being made from it or wait to be. */
  readonly #uses = new Map<SnapshotId, number>()

  constructor(store: SnapshotStore) {
    this.#store = store
    for (const snapshot of store.all()) this.#remember(snapshot)
  }

  /** Stores the intent to take a snapshot. */
  add(snapshot: Snapshot): void {
    this.#store.insert(snapshot)
    this.#remember(snapshot)
  }

  complete(
    snapshot: Snapshot,
    { sizeBytes, root }: StoredSnapshot,
    memory?: SnapshotMemory | undefined,
  ): Snapshot {
    return this.#write({ ...snapshot, sizeBytes, root, state: 'ready', ...(memory && { memory }) })
  }

  mark(snapshot: Snapshot, state: 'deleting' | 'lost'): Snapshot {
    return this.#write({ ...snapshot, state })
  }

  /** Makes temporary snapshots visible under their names, all or none. */
  keep(snapshots: readonly Snapshot[]): Snapshot[] {
    const kept = snapshots.map((snapshot) => ({ ...snapshot, isTemporary: false }))
    this.#store.keep(kept)
    for (const snapshot of kept) this.#remember(snapshot)
    return kept
  }

  /** Like `get`, and also finds a temporary snapshot by its id. */
  find(ref: string, who: Principal): Snapshot {
    const temporary = isSnapshotId(ref) ? this.#snapshots.get(ref) : undefined
    return temporary?.isTemporary && temporary.owner === who.owner ? temporary : this.get(ref, who)
  }

  forget(id: SnapshotId): void {
    this.#store.remove(id)
    const key = this.#snapshots.get(id)?.layer?.key
    if (key !== undefined && this.#layers.get(key) === id) this.#layers.delete(key)
    this.#snapshots.delete(id)
  }

  /** Every record, oldest first, including temporary and unfinished snapshots. */
  all(): Snapshot[] {
    return [...this.#snapshots.values()]
  }

  /** The snapshots that a caller may see: finished ones that were taken to be kept. */
  list(who: Principal): Snapshot[] {
    return this.all().filter((snapshot) => isShown(snapshot) && (who.isAdmin || snapshot.owner === who.owner))
  }

  /** By id or name. Another owner's snapshot gets the same `not_found` as one that never existed. */
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

  /** Records that a layer was used. */
  touch(snapshot: Layer, now: number): void {
    if (now - snapshot.layer.usedAt >= TOUCH_EVERY_MS)
      this.#write({ ...snapshot, layer: { ...snapshot.layer, usedAt: now } })
  }

  /** Records another owner who has built the same layer, or would have. */
  addOwner(snapshot: Layer, owner: string): Layer {
    const { layer } = snapshot
    if (layer.owners.includes(owner)) return snapshot
    const shared = { ...snapshot, layer: { ...layer, owners: [...layer.owners, owner] } }
    this.#write(shared)
    return shared
  }

  /** Protects a snapshot from removal while `work` makes sandboxes from it. */
  async using<T>(snapshot: Snapshot, work: () => Promise<T>): Promise<T> {
    const release = this.hold(snapshot.id)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Protects a snapshot from removal until the returned function is called. */
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

function isShown({ state, isTemporary, layer }: Snapshot): boolean {
  return !isTemporary && !layer && (state === 'ready' || state === 'lost')
}
