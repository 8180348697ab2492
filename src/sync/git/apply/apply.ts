/**
 * Applies the changes between two trees to the user's working tree, without a commit and without the index:
 * all or none.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError, asAgentPodError } from '../../../core/error.ts'
import { showHiddenInLines } from '../../../util/hidden-characters.ts'
import type { ByteName } from '../plumbing/byte-names.ts'
import { compareTrees, type TreeChange } from '../plumbing/compare-trees.ts'
import { type GitOptions, git } from '../plumbing/git.ts'
import type { Leaf } from '../plumbing/objects.ts'
import { userGit } from '../plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../plumbing/repository.ts'
import { type ApplyPlan, type Conflict, type MergeTexts, orderSteps, planChanges } from './apply-plan.ts'
import { Staging } from './staging.ts'
import { WorkTree } from './work-tree.ts'

const MOST_NAMED = 20
const MERGE_MS = 60_000

export interface ApplyOptions {
  readonly from: ObjectId
  readonly to: ObjectId
  /** The tree that was applied before, so that only new changes are applied. */
  readonly applied?: ObjectId | undefined
  /** Paths that are not changed. */
  readonly without?: readonly string[] | undefined
  /** Only reports what would be done. */
  readonly isCheck?: boolean | undefined
  /** Directories with objects that the repository does not have. */
  readonly alsoObjects?: readonly string[] | undefined
}

export interface Applied {
  readonly written: readonly string[]
  readonly removed: readonly string[]
  /** Files that the user changed too; they have both changes now. */
  readonly merged: readonly string[]
  readonly already: readonly string[]
}

/** `conflict` with reason `apply.conflict` names the files in the way; then nothing is changed. */
export async function applyChanges(repo: Repository, o: ApplyOptions): Promise<Applied> {
  const own = userGit(repo, o.alsoObjects)
  const without = new Set(o.without ?? [])
  const { also, changes: all } = await changesAfter(own, o)
  const changes = all.filter(({ path }) => !without.has(path))
  using tree = new WorkTree(repo.root)
  using staging = new Staging(repo)
  const plan = await planChanges({ tree, git: own, changes, also, merge: mergeIn(staging.directory, own) })
  if (plan.conflicts.length > 0) throw applyConflict(plan.conflicts)
  if (!o.isCheck) await carryOutPlan(tree, staging, own, plan)
  return appliedSummary(plan)
}

/**
 * The changes, and the content of files that have an earlier part of them. An unchanged file is changed from
 * the start.
 */
async function changesAfter(
  own: GitOptions,
  { from, to, applied }: ApplyOptions,
): Promise<{
  readonly changes: readonly TreeChange[]
  readonly also: ReadonlyMap<ByteName, Leaf | undefined> | undefined
}> {
  const changes = await compareTrees(own, from, to)
  if (applied === undefined) return { changes, also: undefined }
  const also = new Map((await compareTrees(own, from, applied)).map(({ raw, after }) => [raw, after]))
  // Files that an earlier part changed and that are back at their old content now.
  const known = new Set(changes.map(({ raw }) => raw))
  const back = (await compareTrees(own, applied, to)).filter(({ raw }) => !known.has(raw))
  return { changes: [...changes, ...back], also }
}

/**
 * INVARIANT: every file is written completely before the first one is renamed into place, so that a full disk
 * changes nothing. After that each file is either the old or the new one, whenever the process ends.
 */
export async function carryOutPlan(
  tree: WorkTree,
  staging: Staging,
  own: GitOptions,
  plan: ApplyPlan,
): Promise<void> {
  const ready = await staging.write(own, plan.steps).catch((error: unknown) => {
    throw asAgentPodError(error)
  })
  const done: string[] = []
  for (const step of orderSteps(plan.steps)) {
    const file = ready.get(step)
    try {
      const isDone =
        file === undefined ? tree.remove(step.path, step.seen) : tree.settle(file, step.path, step.seen)
      if (!isDone) throw new Error('it changed in the meantime')
    } catch (error) {
      throw stopped(step.path, done, error)
    }
    done.push(step.path)
  }
}

export function appliedSummary({ steps, already }: ApplyPlan): Applied {
  const pathsOf = (...kinds: string[]): string[] =>
    steps.filter(({ kind }) => kinds.includes(kind)).map(({ path }) => path)
  return { written: pathsOf('write', 'link'), removed: pathsOf('remove'), merged: pathsOf('merge'), already }
}

/** Merges with `git merge-file`, on copies and without any setting of the user. */
function mergeIn(directory: string, own: GitOptions): MergeTexts {
  return async (mine, base, theirs) => {
    const files = { mine, base, theirs }
    for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content)
    const clean = { GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null', GIT_DIR: directory }
    const answer = await git(['merge-file', '-p', '-q', 'mine', 'base', 'theirs'], {
      ...own,
      cwd: directory,
      variables: clean,
      timeoutMs: MERGE_MS,
    })
    return answer.exitCode === 0 ? answer.stdout : undefined
  }
}

export function applyConflict(conflicts: readonly Conflict[]): AgentPodError {
  const named = conflicts.slice(0, MOST_NAMED).map(({ path, why }) => `  ${quoted(path)}: ${why}`)
  const more = conflicts.length > MOST_NAMED ? `\n  and ${conflicts.length - MOST_NAMED} more` : ''
  return new AgentPodError({
    code: 'conflict',
    reason: 'apply.conflict',
    message: `nothing was changed, because ${conflicts.length === 1 ? 'a file conflicts' : `${conflicts.length} files conflict`}:\n${named.join('\n')}${more}`,
    hint: 'commit, stash or move your own changes of these files and try again; or merge the branch with git',
    details: { paths: conflicts.slice(0, MOST_NAMED).map(({ path }) => path) },
  })
}

/** The user's files may have any name. */
function quoted(path: string): string {
  return showHiddenInLines(JSON.stringify(path))
}

function stopped(path: string, done: readonly string[], cause: unknown): AgentPodError {
  const { message } = asAgentPodError(cause)
  const words = done.length === 0 ? 'nothing was changed' : `${done.length} files were changed before it`
  return new AgentPodError({
    code: 'conflict',
    reason: 'apply.stopped',
    message: `${quoted(path)} could not be changed: ${message}; ${words}`,
    hint: 'try again: files that were changed already are skipped',
    details: { done: done.slice(0, MOST_NAMED) },
    cause,
  })
}
