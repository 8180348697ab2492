/** Volumes: directories that sandboxes mount and that outlive them. */
import type { CreateVolume, VolumeView } from '../api/schema/volume.ts'
import type { Transport } from './transport.ts'

export type VolumeInfo = VolumeView
export type VolumeOptions = CreateVolume

const VOLUMES = '/v1/volumes'

export class Volumes {
  readonly #transport: Transport

  /** Use `AgentPod.volumes`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** `already_exists` if you have one of this name. */
  async create(o: VolumeOptions): Promise<VolumeInfo> {
    return (await this.#transport.json('POST', VOLUMES, o)) as VolumeInfo
  }

  /** Oldest first. */
  async list(): Promise<VolumeInfo[]> {
    return (await this.#transport.json('GET', VOLUMES)) as VolumeInfo[]
  }

  /** By id or name. */
  async get(ref: string): Promise<VolumeInfo> {
    return (await this.#transport.json('GET', pathOf(ref))) as VolumeInfo
  }

  /** Removes it and everything in it. `conflict` while a sandbox mounts it, also a paused or stopped one. */
  async remove(ref: string): Promise<void> {
    await this.#transport.json('DELETE', pathOf(ref))
  }
}

function pathOf(ref: string): string {
  return `${VOLUMES}/${encodeURIComponent(ref)}`
}
