import type { SandboxId, SnapshotId } from './id.ts'
import type { SandboxLink } from './network.ts'
import type { RootRef } from './provider.ts'
import type { RecipeBase, Step } from './recipe.ts'
import type { Spec } from './spec.ts'

/** `lost`: the provider no longer has it. */
export const SNAPSHOT_STATES = ['creating', 'ready', 'deleting', 'lost'] as const
export type SnapshotState = (typeof SNAPSHOT_STATES)[number]

/** The layer that a recipe step made, for other sandboxes to use. */
export interface LayerInfo {
  /** A digest over the base and every step up to this one. */
  readonly key: string
  /** The key of the layer below; undefined on the base itself. */
  readonly parent: string | undefined
  readonly base: RecipeBase
  /** Variables that the base sets. */
  readonly inherited?: Readonly<Record<string, string>> | undefined
  readonly step: Step
  /** The project it was built for. Other layers of the project are compared to explain a rebuild. */
  readonly project: string
  /** The owners who have built it, or would have. Only they may use it, since it contains their files. */
  readonly owners: readonly string[]
  /** When it was last used, to the hour. */
  readonly usedAt: number
}

/**
 * The label of snapshots that hold a prepared project for its next run. They are made again when needed, so
 * they are not listed, and removing a layer removes them too.
 */
export const PREPARED_LABEL = 'agentpod/prepared'

/**
 * What a copy needs to continue processes. They hold the placeholders of their sandbox and trust its
 * authority, so the copy has both as its own.
 */
export interface SnapshotMemory {
  readonly sizeBytes: number
  /** The authority's key is sealed for the snapshot. */
  readonly link?: Pick<SandboxLink, 'authority' | 'placeholders'> | undefined
}

/** The files of a sandbox at one moment, and perhaps its memory; they never change. */
export interface Snapshot {
  readonly id: SnapshotId
  /** The owner: the id of a key, or `local`. */
  readonly owner: string
  /** Unique among one owner's snapshots. */
  readonly name: string | undefined
  readonly labels: Readonly<Record<string, string>>
  readonly provider: string
  readonly state: SnapshotState
  /** Taken only to fork from, and removed when the forks are made. */
  readonly isTemporary: boolean
  /** The sandbox that was snapshot; undefined if imported. */
  readonly sandboxId: SandboxId | undefined
  /** The parent snapshot in the same line; it may be removed by now. */
  readonly parentId: SnapshotId | undefined
  readonly spec: Spec
  /** Set if it is a layer of a built environment. Layers are not listed as snapshots. */
  readonly layer?: LayerInfo | undefined
  /** What the files lie on. Known once it is ready. */
  readonly root: RootRef | undefined
  readonly sizeBytes: number
  /** Set if it has the memory of the sandbox's processes. */
  readonly memory?: SnapshotMemory | undefined
  readonly createdAt: number
}
