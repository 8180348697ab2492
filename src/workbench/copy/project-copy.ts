/**
 * A copy of a project in a sandbox, for a command to work on. In a repository the copy is made from git
 * objects and its changes come back as a branch; elsewhere it is made from files and its changes come back as
 * a patch.
 */
import type { Sandbox } from '../../client/sandbox.ts'
import type { CommandChange } from '../../sync/changes.ts'
import type { GatedFile } from '../../sync/git/gate/gate.ts'
import type { ChangedFile } from '../../sync/git/plumbing/diff.ts'
import type { GateChoice } from '../result/choose-gated.ts'

export interface ProjectCopy {
  readonly sandbox: Sandbox
  /** The directory inside that the user is in outside. Undefined in an empty sandbox. */
  readonly workdir: string | undefined
  /** Finds what changed since the copy was made, and brings it back. */
  bringBack(o: BringBackOptions): Promise<CopyChanges>
}

export interface BringBackOptions {
  /** The command, for the name and the message of a branch. */
  readonly command: readonly string[]
  /** How branches are named; the project's and the user's files otherwise. */
  readonly template?: string | undefined
  readonly withGated?: GateChoice | undefined
}

export type CopyChanges =
  | { readonly kind: 'none' }
  /** Nothing inside can compare files: there is no git. */
  | { readonly kind: 'unknown' }
  /** A patch, stored in `file`. */
  | { readonly kind: 'patch'; readonly changes: readonly CommandChange[]; readonly file: string }
  | BranchChanges

export interface BranchChanges {
  readonly kind: 'branch'
  /** Undefined when every change was left out. */
  readonly branch: string | undefined
  readonly changes: readonly ChangedFile[]
  readonly notes: readonly string[]
  /** Left out because they would run later on this machine. */
  readonly gated: readonly GatedFile[]
  readonly tooLarge: readonly string[]
  /** Left out because git cannot store their names, or they could not be read. */
  readonly unusable: readonly string[]
}

/** A copy without a project: an empty sandbox. */
export function emptyCopy(sandbox: Sandbox): ProjectCopy {
  return { sandbox, workdir: undefined, bringBack: async () => ({ kind: 'none' }) }
}
