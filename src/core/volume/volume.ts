/** Volumes: directories that sandboxes mount and that outlive them. */
import type { VolumeId } from '../id.ts'
import type { LimitLevel } from '../resources.ts'

export const VOLUME_STATES = ['creating', 'ready', 'removing'] as const
export type VolumeState = (typeof VOLUME_STATES)[number]

export interface Volume {
  readonly id: VolumeId
  /** The owner: the id of a key, or `local`. Only the sandboxes of this owner can mount it. */
  readonly owner: string
  /** Unique among one owner's volumes. */
  readonly name: string
  readonly provider: string
  readonly state: VolumeState
  /** The most that it holds; undefined for no limit of its own. */
  readonly sizeMib: number | undefined
  /** Whether the size is enforced. Known once it is ready. */
  readonly limit: LimitLevel | undefined
  readonly createdAt: number
}

/** A volume in the record of a sandbox. */
export interface VolumeMount {
  readonly volume: VolumeId
  /** Its name when the sandbox was created. */
  readonly name: string
  readonly path: string
  readonly isReadOnly: boolean
}

/** A volume that a request asks for, by its name or id. */
export interface VolumeRequest {
  readonly volume: string
  readonly path: string
  readonly readOnly?: boolean | undefined
}

export const MOST_VOLUMES = 16
export const SMALLEST_VOLUME_MIB = 16
export const LARGEST_VOLUME_MIB = 1024 * 1024 * 1024
