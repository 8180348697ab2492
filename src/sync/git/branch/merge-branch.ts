/**
 * Merges a branch of a run into HEAD. Git computes the result in a repository of ours that has no merge
 * drivers, and AgentPod writes the files. SECURITY: git checks out nothing, and no hook, filter or driver
 * runs (GT-02, GT-04).
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError } from '../../../core/error.ts'
import { type Applied, appliedSummary, applyConflict, carryOutPlan } from '../apply/apply.ts'
import { type Conflict, planChanges } from '../apply/apply-plan.ts'
import { Staging } from '../apply/staging.ts'
import { WorkTree } from '../apply/work-tree.ts'
import { type ByteName, byteName, byteNames, displayName } from '../plumbing/byte-names.ts'
import { identityVariables } from '../plumbing/commit-identity.ts'
import { compareTrees, type TreeChange } from '../plumbing/compare-trees.ts'
import { diskFull } from '../plumbing/disk-full.ts'
import { indexInfo } from '../plumbing/edit-tree.ts'
import { type GitOptions, git, gitFailed, gitText } from '../plumbing/git.ts'
import type { Leaf } from '../plumbing/objects.ts'
import { openQuarantine, userGit } from '../plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../plumbing/repository.ts'
import { transfer } from '../plumbing/transfer.ts'
import { commitTree } from './make-branch.ts'

const MOST_NAMED = 20
/** Files in a git directory that show an unfinished operation. */
const UNDER_WAY = [
  'MERGE_HEAD',
  'CHERRY_PICK_HEAD',
  'REVERT_HEAD',
  'rebase-merge',
  'rebase-apply',
  'index.lock',
] as const

export interface MergeOptions {
  /** The commit to merge. */
  readonly tip: ObjectId
  /** Name of its branch, for messages. */
  readonly name: string
  readonly message: string
  /**
   * The tree that the run began with, if it had uncommitted files: they are part of the branch, and may still
   * be here.
   */
  readonly start?: ObjectId | undefined
  /** The tree of the parent commit; the empty tree if there is none. */
  readonly begun?: ObjectId | undefined
  /** Called before uncommitted files of the user are committed with the merge. */
  readonly takeUncommitted?: ((paths: readonly string[]) => Promise<boolean>) | undefined
  /** An ancestor of `tip` whose changes HEAD has without its history: squashed, or applied and committed. */
  readonly earlier?: { readonly commit: ObjectId; readonly from: ObjectId } | undefined
  /** Creates a commit with one parent instead of a merge commit. */
  readonly isSquash?: boolean | undefined
  readonly now: number
  /** A directory that the caller removes afterwards. */
  readonly scratch: string
}

/** Without a commit, HEAD already had everything. */
export interface Merged extends Applied {
  readonly commit: ObjectId | undefined
  /** Whether uncommitted files of the user were committed with it. */
  readonly hasStart: boolean
}

/**
 * `conflict` names the files; then nothing is changed. If the process is killed, some files are merged and
 * nothing is committed; running it again continues from there.
 */
export async function mergeBranch(repo: Repository, o: MergeOptions): Promise<Merged> {
  const user = userGit(repo)
  checkQuiet(repo)
  await checkVersion(user)
  const head = await headOf(user)
  const clean = await openQuarantine(repo, o.scratch)
  const quarantine = {
    ...clean,
    variables: { ...clean.variables, ...(await identityVariables(repo, o.now)) },
  }
  const from = await gitText(['rev-parse', `${head}^{tree}`], quarantine)
  const to = await mergedWithEarlier(quarantine, head, o)
  if (to === from)
    return { commit: undefined, hasStart: false, written: [], removed: [], merged: [], already: [] }
  const changes = await compareTrees(quarantine, from, to)
  const uncommitted = await uncommittedIn(quarantine, o, from, changes)
  if (uncommitted.length > 0 && !(await o.takeUncommitted?.(uncommitted))) throw notCommitted(uncommitted)
  using tree = new WorkTree(repo.root)
  using staging = new Staging(repo)
  const also = await leavesOf(quarantine, from, o.start)
  const plan = await planChanges({ tree, git: quarantine, changes, also })
  const conflicts = [...plan.conflicts, ...(await staged(user, changes, also))]
  if (conflicts.length > 0) throw applyConflict(conflicts)
  const parents = o.isSquash ? [head] : [head, o.tip]
  const commit = await commitTree(quarantine, to, parents, o.message)
  await transfer(repo, quarantine, { commits: [commit], trees: [to], without: from })
  await carryOutPlan(tree, staging, quarantine, plan)
  await record(user, quarantine, { head, commit, name: o.name, changes })
  return { commit, hasStart: uncommitted.length > 0, ...appliedSummary(plan) }
}

function checkQuiet({ gitDir }: Repository): void {
  const found = UNDER_WAY.find((name) => existsSync(join(gitDir, name)))
  if (found === undefined) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'merge.under_way',
    message: `another git operation is in progress here: ${found} exists`,
    hint:
      found === 'index.lock'
        ? 'wait until git is done, or remove the lock if git is not running'
        : 'finish or abort it: git status says how',
  })
}

async function checkVersion(user: GitOptions): Promise<void> {
  const version = await gitText(['version'], user)
  const [, major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(version)?.map(Number) ?? []
  if (major > 2 || (major === 2 && minor >= 38)) return
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'git.too_old',
    message: `merging needs git 2.38 or newer; this is ${version.replace(/^git version /, '')}`,
    hint: 'install a newer git; or run `git merge` yourself, which runs the hooks and merge drivers of the repository',
  })
}

async function headOf(user: GitOptions): Promise<ObjectId> {
  const answer = await git(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], user)
  if (answer.exitCode === 0) return answer.stdout.toString('latin1').trim()
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'merge.no_commit',
    message: 'there is no commit to merge into',
    hint: 'commit something first',
  })
}

/** `conflict` with reason `merge.conflict` names the files. */
export async function mergedTree(
  quarantine: GitOptions,
  head: ObjectId,
  o: Pick<MergeOptions, 'tip' | 'name'>,
): Promise<ObjectId> {
  const args = ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', head, o.tip]
  const answer = await git(args, quarantine)
  if (answer.exitCode > 1) throw diskFull(answer.stderr) ?? gitFailed(args, answer)
  const [tree = '', ...paths] = byteNames(answer.stdout)
  if (answer.exitCode === 0) return tree
  throw new AgentPodError({
    code: 'conflict',
    reason: 'merge.conflict',
    message: `nothing was changed: ${o.name} and your commits change the same lines of\n${[...new Set(paths)]
      .slice(0, MOST_NAMED)
      .map((path) => `  ${displayName(path)}`)
      .join('\n')}`,
    hint: `git merge ${o.name} writes both versions into these files, for you to choose`,
    details: { paths: paths.slice(0, MOST_NAMED).map(displayName) },
  })
}

/** Merges only the changes that HEAD does not have yet. */
async function mergedWithEarlier(quarantine: GitOptions, head: ObjectId, o: MergeOptions): Promise<ObjectId> {
  const tree = await gitText(['rev-parse', `${head}^{tree}`], quarantine)
  if (o.earlier === undefined || !(await isTaken(quarantine, tree, o.earlier)))
    return mergedTree(quarantine, head, o)
  const both = await commitTree(quarantine, tree, [head, o.earlier.commit], 'both')
  return mergedTree(quarantine, both, o)
}

/** Whether every file that it changes differs from its old content. */
async function isTaken(
  quarantine: GitOptions,
  head: ObjectId,
  { commit, from }: NonNullable<MergeOptions['earlier']>,
): Promise<boolean> {
  const changed = new Set((await compareTrees(quarantine, from, head)).map(({ raw }) => raw))
  const changes = await compareTrees(
    quarantine,
    from,
    await gitText(['rev-parse', `${commit}^{tree}`], quarantine),
  )
  return changes.every(({ raw }) => changed.has(raw))
}

/**
 * Files that the run began with uncommitted, that are still uncommitted, and that this merge would commit.
 */
async function uncommittedIn(
  quarantine: GitOptions,
  o: MergeOptions,
  head: ObjectId,
  changes: readonly TreeChange[],
): Promise<string[]> {
  if (o.start === undefined || o.begun === undefined) return []
  const changed = new Set(changes.map(({ raw }) => raw))
  const went = new Set((await compareTrees(quarantine, o.begun, o.start)).map(({ raw }) => raw))
  const missing = await compareTrees(quarantine, head, o.start)
  return missing.filter(({ raw }) => changed.has(raw) && went.has(raw)).map(({ path }) => path)
}

function notCommitted(paths: readonly string[]): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'merge.uncommitted',
    message: [
      'nothing was changed: the run began with uncommitted files of yours, and merging would commit them too:',
      ...paths.slice(0, MOST_NAMED).map((path) => `  ${displayName(byteName(path))}`),
      ...(paths.length > MOST_NAMED ? [`  and ${paths.length - MOST_NAMED} more`] : []),
    ].join('\n'),
    hint: 'commit them first, or use --with-uncommitted to commit them with the merge, or `agentpod apply`, which commits nothing',
    details: { paths: paths.slice(0, MOST_NAMED) },
  })
}

async function leavesOf(
  quarantine: GitOptions,
  from: ObjectId,
  start: ObjectId | undefined,
): Promise<ReadonlyMap<ByteName, Leaf>> {
  const changes = start === undefined ? [] : await compareTrees(quarantine, from, start)
  return new Map(changes.flatMap(({ raw, after }) => (after ? [[raw, after]] : [])))
}

/** Files whose staged version is neither the old nor the merged one: it would be lost. */
async function staged(
  user: GitOptions,
  changes: readonly TreeChange[],
  also: ReadonlyMap<ByteName, Leaf>,
): Promise<Conflict[]> {
  const args = ['ls-files', '--stage', '-z']
  const answer = await git(args, user)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const index = new Map<string, Leaf & { readonly stage: string }>()
  for (const line of byteNames(answer.stdout)) {
    const [, mode = '', id = '', stage = '', raw = ''] = /^(\d+) ([0-9a-f]+) (\d)\t(.+)$/s.exec(line) ?? []
    index.set(raw, { mode, id, stage })
  }
  return changes.flatMap(({ raw, path, before, after }) => {
    const entry = index.get(raw)
    const isKnown = [before, after, also.get(raw) ?? before].some(
      (leaf) => leaf?.id === entry?.id && leaf?.mode === entry?.mode,
    )
    return isKnown && (entry?.stage ?? '0') === '0' ? [] : [{ path, why: 'you staged another version of it' }]
  })
}

/** Updates the index, then the ref: a commit is never ahead of the files. */
async function record(
  user: GitOptions,
  { variables }: GitOptions,
  o: { head: ObjectId; commit: ObjectId; name: string; changes: readonly TreeChange[] },
): Promise<void> {
  const edits = o.changes.map(({ raw, after }) => ({ raw, leaf: after }))
  const index = ['update-index', '-z', '--index-info']
  const indexed = await git(index, { ...user, input: indexInfo(edits) })
  if (indexed.exitCode !== 0) throw diskFull(indexed.stderr) ?? gitFailed(index, indexed)
  const ref = ['update-ref', '-m', `merge ${o.name}: agentpod`, 'HEAD', o.commit, o.head]
  const identity = Object.fromEntries(
    Object.entries(variables ?? {}).filter(([key]) => key.startsWith('GIT_COMMITTER_')),
  )
  const moved = await git(ref, { ...user, variables: { ...user.variables, ...identity } })
  if (moved.exitCode !== 0) throw diskFull(moved.stderr) ?? gitFailed(ref, moved)
}
