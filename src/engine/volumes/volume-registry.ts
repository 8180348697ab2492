/** The only writer of volume records. All of them are also held in memory; the database is written first. */
import { AgentPodError } from '../../core/error.ts'
import { isVolumeId, type VolumeId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { StoredVolume } from '../../core/provider.ts'
import type { Volume } from '../../core/volume/volume.ts'
import type { VolumeStore } from '../../store/volumes.ts'
import { nearest } from '../../util/nearest.ts'

export class VolumeRegistry {
  readonly #store: VolumeStore
  readonly #volumes = new Map<VolumeId, Volume>()

  constructor(store: VolumeStore) {
    this.#store = store
    for (const volume of store.all()) this.#volumes.set(volume.id, volume)
  }

  /** Stores the intent to make a volume. */
  add(volume: Volume): void {
    this.#store.insert(volume)
    this.#volumes.set(volume.id, volume)
  }

  complete(volume: Volume, { limit }: StoredVolume): Volume {
    return this.#write({ ...volume, limit, state: 'ready' })
  }

  /** Stores the intent to remove a volume. */
  markRemoving(volume: Volume): Volume {
    return this.#write({ ...volume, state: 'removing' })
  }

  forget(id: VolumeId): void {
    this.#store.remove(id)
    this.#volumes.delete(id)
  }

  /** Every record, oldest first, including unfinished ones. */
  all(): Volume[] {
    return [...this.#volumes.values()]
  }

  /** The finished volumes that a caller may see. */
  list(who: Principal): Volume[] {
    return this.all().filter(({ state, owner }) => state === 'ready' && (who.isAdmin || owner === who.owner))
  }

  /** By id or name. Another owner's volume gets the same `not_found` as one that never existed. */
  get(ref: string, who: Principal): Volume {
    const visible = this.list(who)
    const found =
      visible.find(({ owner, name }) => owner === who.owner && name === ref) ??
      visible.find(({ id, name }) => (isVolumeId(ref) ? id === ref : name === ref))
    if (found) return found
    const near = nearest(
      ref,
      visible.map(({ name }) => name),
    )
    throw new AgentPodError({
      code: 'not_found',
      reason: 'volume.unknown',
      message: `there is no volume ${ref}`,
      hint: `${near === undefined ? '' : `did you mean ${near}? `}\`agentpod volume create ${ref}\` creates it, and \`agentpod volume ls\` lists yours`,
    })
  }

  #write(volume: Volume): Volume {
    this.#store.update(volume)
    this.#volumes.set(volume.id, volume)
    return volume
  }
}
