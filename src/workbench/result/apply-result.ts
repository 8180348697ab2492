/** Writes a result into the user's working tree, without a commit: all of it or nothing. */
import { appliedTree, recordApplied } from '../../sync/git/apply/applied-tree.ts'
import { type Applied, applyChanges } from '../../sync/git/apply/apply.ts'
import type { GatedFile } from '../../sync/git/gate/gate.ts'
import { compareTrees, type TreeChange } from '../../sync/git/plumbing/compare-trees.ts'
import { editTree } from '../../sync/git/plumbing/edit-tree.ts'
import { gitText } from '../../sync/git/plumbing/git.ts'
import { userGit } from '../../sync/git/plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../../sync/git/plumbing/repository.ts'
import type { Received } from '../../sync/git/result/receive.ts'
import { labelOf } from '../run/run-label.ts'
import type { Workbench } from '../workbench.ts'
import { chooseGated, type GateChoice } from './choose-gated.ts'
import type { OpenResult } from './open-result.ts'
import { type ResultTarget, runOf } from './result-target.ts'

export interface ApplyResultOptions {
  readonly withGated?: GateChoice | undefined
  /** Change nothing, and give what would change. */
  readonly isCheck?: boolean | undefined
}

export interface AppliedResult extends Applied {
  /** Files that would run later on this machine and were not written. */
  readonly leftOut: readonly GatedFile[]
}

export async function applyResult(
  { person }: Workbench,
  target: ResultTarget,
  { received, objects }: OpenResult,
  o: ApplyResultOptions,
): Promise<AppliedResult> {
  const { repo } = target
  const { from, tree, quarantine } = received
  const run = runOf(target)
  const before = run === undefined ? undefined : await appliedTree(repo, run)
  const gate = await newlyGated(received, before)
  // The user approved the contents of a branch when it was made.
  const leftOut =
    target.kind === 'branch'
      ? []
      : await chooseGated(person, labelOf(target.run.info), gate, o.withGated ?? 'ask')
  const without = leftOut.map(({ path }) => path)
  const isCheck = o.isCheck ?? false
  const applied = await applyChanges(repo, {
    from,
    to: tree,
    applied: before,
    without,
    isCheck,
    alsoObjects: objects,
  })
  if (run !== undefined && !isCheck) {
    const now = await treeWithout(received, before, without)
    await recordApplied(repo, quarantine, { run, tree: now, from: await headTree(repo) })
  }
  return { ...applied, leftOut }
}

/** Gated files that differ from what was applied before, which the user approved. */
async function newlyGated(
  { gate, treeChanges, quarantine, from }: Received,
  before: ObjectId | undefined,
): Promise<readonly GatedFile[]> {
  if (before === undefined || gate.length === 0) return gate
  const known = new Map((await compareTrees(quarantine, from, before)).map((one) => [one.path, one.after]))
  const isKnown = ({ path, after }: TreeChange): boolean =>
    known.has(path) && known.get(path)?.id === after?.id && known.get(path)?.mode === after?.mode
  const taken = new Set(treeChanges.filter(isKnown).map(({ path }) => path))
  return gate.filter(({ path }) => !taken.has(path))
}

/** The tree that is in the working tree now: the result without the files that were left out. */
async function treeWithout(
  { quarantine, from, tree }: Received,
  before: ObjectId | undefined,
  without: readonly string[],
): Promise<ObjectId> {
  const kept = new Set(without)
  const changes = await compareTrees(quarantine, before ?? from, tree)
  const back = changes.filter(({ path }) => kept.has(path))
  return editTree(
    quarantine,
    tree,
    back.map(({ raw, before: leaf }) => ({ raw, leaf })),
  )
}

async function headTree(repo: Repository): Promise<ObjectId | undefined> {
  return repo.commit === undefined
    ? undefined
    : gitText(['rev-parse', '--verify', `${repo.commit}^{tree}`], userGit(repo))
}
