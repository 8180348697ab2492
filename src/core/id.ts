import { type Random, randomWord } from '../util/random.ts'
import { invalid } from './error.ts'

declare const brand: unique symbol
export type SandboxId = string & { readonly [brand]: 'SandboxId' }
export type SnapshotId = string & { readonly [brand]: 'SnapshotId' }
export type VolumeId = string & { readonly [brand]: 'VolumeId' }
export type GroupId = string & { readonly [brand]: 'GroupId' }

/**
 * Labels everything that one state directory made outside its database, so that it can be found without one.
 */
export type OwnerLabel = string & { readonly [brand]: 'OwnerLabel' }

const ID = /^[a-z0-9]{4,20}$/
const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/
const OWNER = /^[a-z0-9-]{4,40}$/

export function newSandboxId(random: Random): SandboxId {
  return randomWord(random, 16) as SandboxId
}

export function isSandboxId(value: string): value is SandboxId {
  return ID.test(value)
}

export function parseSandboxId(value: string): SandboxId {
  if (isSandboxId(value)) return value
  throw invalid(
    'id.malformed',
    'a sandbox id is 4 to 20 lowercase letters and digits',
    'see `agentpod ls` for ids',
  )
}

const SNAPSHOT_ID = /^snap[a-z0-9]{16}$/

/** Never equal to a sandbox id, which has sixteen characters. */
export function newSnapshotId(random: Random): SnapshotId {
  return `snap${randomWord(random, 16)}` as SnapshotId
}

export function isSnapshotId(value: string): value is SnapshotId {
  return SNAPSHOT_ID.test(value)
}

export function parseSnapshotId(value: string): SnapshotId {
  if (isSnapshotId(value)) return value
  throw invalid('id.malformed', 'a snapshot id is `snap` and 16 lowercase letters and digits')
}

const VOLUME_ID = /^vol[a-z0-9]{16}$/

/** Never equal to the id of a sandbox or a snapshot, which are shorter or longer. */
export function newVolumeId(random: Random): VolumeId {
  return `vol${randomWord(random, 16)}` as VolumeId
}

export function isVolumeId(value: string): value is VolumeId {
  return VOLUME_ID.test(value)
}

export function parseVolumeId(value: string): VolumeId {
  if (isVolumeId(value)) return value
  throw invalid('id.malformed', 'a volume id is `vol` and 16 lowercase letters and digits')
}

export function isName(value: string): boolean {
  return NAME.test(value)
}

const GROUP_ID = /^grp[a-z0-9]{16}$/

export function newGroupId(random: Random): GroupId {
  return `grp${randomWord(random, 16)}` as GroupId
}

export function isGroupId(value: string): value is GroupId {
  return GROUP_ID.test(value)
}

/** A name that a person chose. It never looks like a path, an option or a line break. */
export function parseName(value: string): string {
  if (isName(value)) return value
  throw invalid(
    'name.malformed',
    'a name is 1 to 64 lowercase letters, digits, dots, dashes and underscores, and begins and ends with a letter or digit',
  )
}

export function parseOwner(value: string): OwnerLabel {
  if (OWNER.test(value)) return value as OwnerLabel
  throw invalid('owner.malformed', 'malformed owner label')
}
