/** Changes between two trees, made in the user's working tree: no commit, no index. All of them, or none. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import { type Conflict, inOrder, type Merge, type Plan, planChanges } from './apply-plan.ts'
import { visible } from './diff.ts'
import { type GitOptions, git } from './git.ts'
import type { ByteName } from './names.ts'
import type { Leaf } from './objects.ts'
import { userGit } from './quarantine.ts'
import type { ObjectId, Repository } from './repository.ts'
import { Staging } from './staging.ts'
import { compareTrees, type TreeChange } from './tree-changes.ts'
import { WorkTree } from './work-tree.ts'

const MOST_NAMED = 20
const MERGE_MS = 60_000

export interface ApplyOptions {
  readonly from: ObjectId
  readonly to: ObjectId
  /** What of it is there already: only what is new is changed. */
  readonly applied?: ObjectId | undefined
  /** Paths that stay as they are. */
  readonly without?: readonly string[] | undefined
  /** Only says what would be done. */
  readonly isCheck?: boolean | undefined
  /** Where objects are that the repository does not have. */
  readonly alsoObjects?: readonly string[] | undefined
}

export interface Applied {
  readonly written: readonly string[]
  readonly removed: readonly string[]
  /** Changed here too; both changes are in them now. */
  readonly merged: readonly string[]
  readonly already: readonly string[]
}

/** `conflict` with reason `apply.conflict` names the files that are in the way; nothing is changed then. */
export async function applyChanges(repo: Repository, o: ApplyOptions): Promise<Applied> {
  const own = userGit(repo, o.alsoObjects)
  const without = new Set(o.without ?? [])
  const { also, changes: all } = await changesAfter(own, o)
  const changes = all.filter(({ path }) => !without.has(path))
  using tree = new WorkTree(repo.root)
  using staging = new Staging(repo)
  const plan = await planChanges({ tree, git: own, changes, also, merge: mergeIn(staging.directory, own) })
  if (plan.conflicts.length > 0) throw inConflict(plan.conflicts)
  if (!o.isCheck) await carryOut(tree, staging, own, plan)
  return summary(plan)
}

/** What is to change, and how files are that have an earlier part of it. A file that is as it was at the start is changed from there. */
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
  // What an earlier part changed and this one has as it was.
  const known = new Set(changes.map(({ raw }) => raw))
  const back = (await compareTrees(own, applied, to)).filter(({ raw }) => !known.has(raw))
  return { changes: [...changes, ...back], also }
}

/**
 * INVARIANT: everything is written in full before the first file gets its name, so that a full disk changes nothing. After that each file is
 * the old one or the new one, whenever this ends.
 */
export async function carryOut(tree: WorkTree, staging: Staging, own: GitOptions, plan: Plan): Promise<void> {
  const ready = await staging.write(own, plan.steps).catch((error: unknown) => {
    throw asAgentPodError(error)
  })
  const done: string[] = []
  for (const step of inOrder(plan.steps)) {
    const file = ready.get(step)
    try {
      const isDone =
        file === undefined ? tree.remove(step.path, step.seen) : tree.settle(file, step.path, step.seen)
      if (!isDone) throw new Error('it changed meanwhile')
    } catch (error) {
      throw stopped(step.path, done, error)
    }
    done.push(step.path)
  }
}

export function summary({ steps, already }: Plan): Applied {
  const pathsOf = (...kinds: string[]): string[] =>
    steps.filter(({ kind }) => kinds.includes(kind)).map(({ path }) => path)
  return { written: pathsOf('write', 'link'), removed: pathsOf('remove'), merged: pathsOf('merge'), already }
}

/** Git's own way to bring three texts together, on copies and without any setting of the user's. */
function mergeIn(directory: string, own: GitOptions): Merge {
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

export function inConflict(conflicts: readonly Conflict[]): AgentPodError {
  const named = conflicts.slice(0, MOST_NAMED).map(({ path, why }) => `  ${quoted(path)}: ${why}`)
  const more = conflicts.length > MOST_NAMED ? `\n  and ${conflicts.length - MOST_NAMED} more` : ''
  return new AgentPodError({
    code: 'conflict',
    reason: 'apply.conflict',
    message: `nothing was changed, as ${conflicts.length === 1 ? 'a file is' : `${conflicts.length} files are`} in the way:\n${named.join('\n')}${more}`,
    hint: 'commit, stash or move away your own changes of these files, and try again; or merge the branch with git itself',
    details: { paths: conflicts.slice(0, MOST_NAMED).map(({ path }) => path) },
  })
}

/** A file of the user's may have any name. */
function quoted(path: string): string {
  return visible(JSON.stringify(path))
}

function stopped(path: string, done: readonly string[], cause: unknown): AgentPodError {
  const { message } = asAgentPodError(cause)
  const words = done.length === 0 ? 'nothing was changed' : `${done.length} files were changed before it`
  return new AgentPodError({
    code: 'conflict',
    reason: 'apply.stopped',
    message: `${quoted(path)} could not be changed: ${message}; ${words}`,
    hint: 'try again: what was changed already is left as it is',
    details: { done: done.slice(0, MOST_NAMED) },
    cause,
  })
}
