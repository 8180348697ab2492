import type { SandboxId, SnapshotId } from './id.ts'
import type { RootRef } from './provider.ts'
import type { RecipeBase, Step } from './recipe.ts'
import type { Spec } from './spec.ts'

/** `lost`: the provider no longer has it. */
export const SNAPSHOT_STATES = ['creating', 'ready', 'deleting', 'lost'] as const
export type SnapshotState = (typeof SNAPSHOT_STATES)[number]

/** What one step of a recipe left, for other sandboxes to stand on. */
export interface LayerInfo {
  /** A digest over the base and every step up to this one. */
  readonly key: string
  /** The key of the layer below; undefined on the base itself. */
  readonly parent: string | undefined
  readonly base: RecipeBase
  readonly step: Step
  /** What it was built for; what else was built for it is looked through to say why something is built anew. */
  readonly project: string
  /** Who has built it, or would have: only they may stand on it, since it holds files of theirs. */
  readonly owners: readonly string[]
  /** When somebody last stood on it, to the hour. */
  readonly usedAt: number
}

/**
 * On snapshots that hold a project for its next run. They are made again at need: nobody is shown them, and they keep no layer from being removed but go with
 * it.
 */
export const PREPARED_LABEL = 'agentpod/prepared'

/** A sandbox's files at one moment; they never change. */
export interface Snapshot {
  readonly id: SnapshotId
  /** Whose it is: the id of a key, or `local`. */
  readonly owner: string
  /** Unique among one owner's snapshots. */
  readonly name: string | undefined
  readonly labels: Readonly<Record<string, string>>
  readonly provider: string
  readonly state: SnapshotState
  /** Taken only to fork from, and removed when the forks are made. */
  readonly isPassing: boolean
  /** Whose files these are; undefined when they were imported. */
  readonly sandboxId: SandboxId | undefined
  /** The snapshot before it in the same line; it may be gone by now. */
  readonly parentId: SnapshotId | undefined
  readonly spec: Spec
  /** Where it is a layer of a built environment. Nobody sees those among the snapshots. */
  readonly layer?: LayerInfo | undefined
  /** What the files lie on. Known once it is ready. */
  readonly root: RootRef | undefined
  readonly sizeBytes: number
  readonly createdAt: number
}
