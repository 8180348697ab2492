/** Volumes, as the API asks for them: access is checked, calls are audited. */
import type { Principal } from '../../core/principal.ts'
import type { Volume } from '../../core/volume/volume.ts'
import { ignore } from '../../telemetry/log.ts'
import { CALL } from '../call.ts'
import type { Context, GuestConnection } from '../context.ts'
import { recordAudit } from '../record-audit.ts'
import { makeVolume, type NewVolume, removeVolume, usersOf } from './volume.ts'
import { endVolumeAccess, isVolumeAccess, volumeAccess } from './volume-access.ts'

/** A volume, and what is known about its use. */
export interface UsedVolume {
  readonly volume: Volume
  /** Undefined if the provider does not answer. */
  readonly usedBytes: number | undefined
  /** The ids of the sandboxes that mount it, in any state. */
  readonly sandboxes: readonly string[]
}

export class VolumeOperations {
  readonly #ctx: Context

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  async create(request: NewVolume, who: Principal): Promise<UsedVolume> {
    const volume = await makeVolume(this.#ctx, who.owner, request)
    recordAudit(this.#ctx, who, 'volume.create', { subject: volume.id, data: { name: volume.name } })
    return this.#withUse(volume)
  }

  /** Oldest first. */
  list(who: Principal): Promise<UsedVolume[]> {
    return Promise.all(this.#ctx.volumeRegistry.list(who).map((volume) => this.#withUse(volume)))
  }

  /** By id or name; `not_found` otherwise. */
  find(ref: string, who: Principal): Volume {
    return this.#ctx.volumeRegistry.get(ref, who)
  }

  get(ref: string, who: Principal): Promise<UsedVolume> {
    return this.#withUse(this.find(ref, who))
  }

  /** Removes it and everything in it. `conflict` while a sandbox in any state mounts it. */
  async remove(ref: string, who: Principal): Promise<Volume> {
    const volume = this.find(ref, who)
    await endVolumeAccess(this.#ctx, volume.id)
    await removeVolume(this.#ctx, volume)
    recordAudit(this.#ctx, who, 'volume.remove', { subject: volume.id, data: { name: volume.name } })
    return volume
  }

  /** A way to its files, which are at `VOLUME_PATH` inside. */
  access(ref: string, who: Principal): Promise<GuestConnection> {
    return volumeAccess(this.#ctx, this.find(ref, who), who)
  }

  async #withUse(volume: Volume): Promise<UsedVolume> {
    const { providers, log } = this.#ctx
    const users = usersOf(this.#ctx, volume.id).filter((sandbox) => !isVolumeAccess(sandbox))
    const sandboxes = users.map(({ id }) => id)
    try {
      const { usedBytes } = await providers.group(volume, 'volumes').stats(volume.id, CALL)
      return { volume, usedBytes, sandboxes }
    } catch (error) {
      ignore(log, error, `the use of volume ${volume.id} is not known`)
      return { volume, usedBytes: undefined, sandboxes }
    }
  }
}
