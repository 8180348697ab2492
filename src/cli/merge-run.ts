/** A run merged into what the user is on, by its branch, which is made where there is none. */
import type { Run, RunInfo } from '../client/runs.ts'
import { AgentPodError } from '../core/error.ts'
import { gitText } from '../sync/git/git.ts'
import { type Merged, type MergeOptions, mergeBranch } from '../sync/git/merge.ts'
import { userGit } from '../sync/git/quarantine.ts'
import type { ObjectId, Repository } from '../sync/git/repository.ts'
import { systemClock } from '../util/clock.ts'
import { branchTemplate } from './agent-settings.ts'
import type { Parsed } from './args/parse.ts'
import { bringBack } from './bring-back.ts'
import type { CommandContext } from './command.ts'
import type { CommandBranch } from './command-branch.ts'
import { projectKey, scratchOf } from './project-objects.ts'
import { noRepository, type RunFinder } from './run-ref.ts'

export async function mergeRun(
  ctx: CommandContext,
  parsed: Parsed,
  finder: Pick<RunFinder, 'repo' | 'branches'>,
  run: Run,
): Promise<{ readonly merged: Merged; readonly branch: string }> {
  const { repo } = finder
  if (!repo) throw noRepository()
  const branch = await branchFor(ctx, parsed, { ...finder, repo }, run)
  const tip = await gitText(['rev-parse', '--verify', `refs/heads/${branch}^{commit}`], userGit(repo))
  const merged = await mergeTip(ctx, parsed, repo, {
    tip,
    name: branch,
    message: `Merge branch '${branch}'\n\nAgentPod-Run: ${run.id}`,
    start: await uncommittedStart(repo, run.info),
  })
  return { merged, branch }
}

/** The branch of a command. */
export function mergeCommand(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  { tip, name, start }: CommandBranch,
): Promise<Merged> {
  return mergeTip(ctx, parsed, repo, { tip, name, message: `Merge branch '${name}'`, start })
}

async function mergeTip(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  o: Pick<MergeOptions, 'tip' | 'name' | 'message' | 'start'>,
): Promise<Merged> {
  const isSquash = parsed.has('squash')
  using scratch = scratchOf(ctx.home, projectKey(repo.root))
  return mergeBranch(repo, {
    ...o,
    message: isSquash ? await messageOf(repo, o.tip) : o.message,
    isSquash,
    now: systemClock.now(),
    scratch: scratch.path,
  })
}

/** One that has all of the result, where that is asked for. */
async function branchFor(
  ctx: CommandContext,
  parsed: Parsed,
  { repo, branches }: { readonly repo: Repository; readonly branches: RunFinder['branches'] },
  run: Run,
): Promise<string> {
  const isWhole = parsed.has('with-executables')
  const found = branches.find((one) => one.run === run.id && one.result === run.info.result?.tree)
  if (found && (!isWhole || (await treeOf(repo, found.commit)) === found.result)) return found.name
  const back = await bringBack(ctx, repo, run, {
    template: branchTemplate(ctx, parsed, repo.root),
    withGated: isWhole ? true : 'ask',
    // What is printed is what was merged.
    isJson: false,
    isAgain: isWhole,
  })
  if (back.branch !== undefined) return back.branch
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'run.nothing',
    message:
      run.info.state === 'ended'
        ? 'there is nothing to merge: the run left no changes'
        : 'the run has not ended yet',
    hint: run.info.state === 'ended' ? undefined : `\`agentpod follow ${run.id}\` waits for it`,
  })
}

function treeOf(repo: Repository, commit: ObjectId): Promise<ObjectId> {
  return gitText(['rev-parse', '--verify', `${commit}^{tree}`], userGit(repo))
}

/** What the run began with, where that was not what is committed. */
async function uncommittedStart(repo: Repository, { project }: RunInfo): Promise<ObjectId | undefined> {
  if (!project) return undefined
  const isCommitted = project.commit !== null && (await treeOf(repo, project.commit)) === project.tree
  return isCommitted ? undefined : project.tree
}

/** The words of a commit as they are. */
async function messageOf(repo: Repository, commit: ObjectId): Promise<string> {
  const text = await gitText(['cat-file', 'commit', commit], userGit(repo))
  return text.slice(text.indexOf('\n\n') + 2)
}
