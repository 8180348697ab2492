/**
 * Merges a run or a branch into the branch that the user is on. A run's branch is made first if there is
 * none.
 */
import type { Run } from '../../client/runs.ts'
import { AgentPodError } from '../../core/error.ts'
import { appliedTree, recordApplied } from '../../sync/git/apply/applied-tree.ts'
import { type Merged, mergeBranch } from '../../sync/git/branch/merge-branch.ts'
import { gitText } from '../../sync/git/plumbing/git.ts'
import { openQuarantine, userGit } from '../../sync/git/plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../../sync/git/plumbing/repository.ts'
import { systemClock } from '../../util/clock.ts'
import { projectKey, scratchOf } from '../project/project-state.ts'
import { branchTemplate } from '../run/branch-template.ts'
import { noRepository, type RunFinder } from '../run/find-run.ts'
import type { Workbench } from '../workbench.ts'
import type { GateChoice } from './choose-gated.ts'
import { newestOf, RUN_TRAILER } from './list-run-branches.ts'
import { type NamedBranch, namedBranch } from './named-branch.ts'
import { type BroughtBack, makeRunBranch } from './run-branch.ts'

export interface MergeRunOptions {
  /** One commit of the user, instead of a merge commit. */
  readonly isSquash?: boolean | undefined
  readonly withGated?: GateChoice | undefined
  /** Commit files too that were uncommitted when the work began. Asks by default. */
  readonly withUncommitted?: boolean | undefined
  readonly template?: string | undefined
}

export interface MergedRun {
  readonly merged: Merged
  readonly branch: string
  /** What was brought back to make the branch; undefined when the branch existed. */
  readonly made: BroughtBack | undefined
}

export async function mergeRun(
  bench: Workbench,
  finder: Pick<RunFinder, 'repo' | 'branches'>,
  run: Run,
  o: MergeRunOptions,
): Promise<MergedRun> {
  const { repo } = finder
  if (!repo) throw noRepository()
  const { name, made } = await branchFor(bench, { ...finder, repo }, run, o)
  const branch = await namedBranch(repo, name)
  if (!branch) throw isCurrent(name)
  return { merged: await mergeNamed(bench, repo, branch, o), branch: name, made }
}

/** Merges a branch as it is. */
export async function mergeNamed(
  bench: Workbench,
  repo: Repository,
  { tip, name, run, from, tree, start, begun, commits }: NamedBranch,
  o: MergeRunOptions,
): Promise<Merged> {
  const isSquash = o.isSquash ?? false
  const message = `Merge branch '${name}'${run === undefined ? '' : `\n\n${RUN_TRAILER}: ${run}`}`
  const applied = run === undefined ? undefined : await appliedTree(repo, run)
  const earlier = commits.slice(1).find((one) => one.tree === applied)
  using scratch = scratchOf(bench.home, projectKey(repo))
  const merged = await mergeBranch(repo, {
    tip,
    name,
    message: isSquash ? await messageOf(repo, commits[0]?.commit ?? tip) : message,
    start,
    begun,
    takeUncommitted: async (paths) =>
      o.withUncommitted || ((await bench.person.question('uncommitted', { paths })) ?? false),
    earlier: earlier && { commit: earlier.commit, from },
    isSquash,
    now: systemClock.now(),
    scratch: scratch.path,
  })
  if (run !== undefined)
    await recordApplied(repo, await openQuarantine(repo, scratch.path), { run, tree, from })
  return merged
}

function isCurrent(name: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'merge.same',
    message: `you are on the branch ${name}, which cannot be merged into itself`,
    hint: 'switch to the branch that you want to merge it into: git switch BRANCH',
  })
}

interface BranchForRun {
  readonly name: string
  readonly made: BroughtBack | undefined
}

/** A branch of the run's present result. It holds all of the result when `withGated` asks for that. */
async function branchFor(
  bench: Workbench,
  { repo, branches }: { readonly repo: Repository; readonly branches: RunFinder['branches'] },
  run: Run,
  { withGated = 'ask', template }: MergeRunOptions,
): Promise<BranchForRun> {
  const found = newestOf(branches, run.id, run.info.result?.tree)
  if (
    found &&
    found.result === run.info.result?.tree &&
    (withGated === 'ask' || (await treeOf(repo, found.commit)) === found.result)
  )
    return { name: found.name, made: undefined }
  const made = await makeRunBranch(bench, repo, run, {
    template: branchTemplate(bench.home, repo.root, template),
    withGated,
    isAgain: withGated !== 'ask',
  })
  if (made.branch !== undefined) return { name: made.branch, made }
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.nothing',
    message:
      run.info.state === 'ended' ? 'nothing to merge: the run changed no files' : 'the run has not ended yet',
    hint: run.info.state === 'ended' ? undefined : `\`agentpod follow ${run.id}\` waits for it`,
  })
}

function treeOf(repo: Repository, commit: ObjectId): Promise<ObjectId> {
  return gitText(['rev-parse', '--verify', `${commit}^{tree}`], userGit(repo))
}

/** The message of a commit. */
async function messageOf(repo: Repository, commit: ObjectId): Promise<string> {
  const text = await gitText(['cat-file', 'commit', commit], userGit(repo))
  return text.slice(text.indexOf('\n\n') + 2)
}
