/** A run merged into what the user is on, by its branch, which is made where there is none. */
import type { Run } from '../client/runs.ts'
import { AgentPodError } from '../core/error.ts'
import { appliedTree, recordApplied } from '../sync/git/applied.ts'
import { gitText } from '../sync/git/git.ts'
import { type Merged, mergeBranch } from '../sync/git/merge.ts'
import { openQuarantine, userGit } from '../sync/git/quarantine.ts'
import type { ObjectId, Repository } from '../sync/git/repository.ts'
import { systemClock } from '../util/clock.ts'
import { branchTemplate } from './agent-settings.ts'
import { gateChoice } from './args/gate-choice.ts'
import type { Parsed } from './args/parse.ts'
import { bringBack } from './bring-back.ts'
import type { CommandContext } from './command.ts'
import { type NamedBranch, namedBranch } from './named-branch.ts'
import { isYes } from './output/ask.ts'
import { printable } from './output/terminal.ts'
import { projectKey, scratchOf } from './project-objects.ts'
import { newestOf, RUN_TRAILER } from './run-branches.ts'
import { noRepository, type RunFinder } from './run-ref.ts'

export async function mergeRun(
  ctx: CommandContext,
  parsed: Parsed,
  finder: Pick<RunFinder, 'repo' | 'branches'>,
  run: Run,
): Promise<{ readonly merged: Merged; readonly branch: string }> {
  const { repo } = finder
  if (!repo) throw noRepository()
  const name = await branchFor(ctx, parsed, { ...finder, repo }, run)
  const branch = await namedBranch(repo, name)
  if (!branch) throw isOnIt(name)
  return { merged: await mergeNamed(ctx, parsed, repo, branch), branch: name }
}

/** A branch as it is. */
export async function mergeNamed(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  { tip, name, run, from, tree, start, begun, commits }: NamedBranch,
): Promise<Merged> {
  const isSquash = parsed.has('squash')
  const message = `Merge branch '${name}'${run === undefined ? '' : `\n\n${RUN_TRAILER}: ${run}`}`
  const applied = run === undefined ? undefined : await appliedTree(repo, run)
  const earlier = commits.slice(1).find((one) => one.tree === applied)
  using scratch = scratchOf(ctx.home, projectKey(repo))
  const merged = await mergeBranch(repo, {
    tip,
    name,
    message: isSquash ? await messageOf(repo, commits[0]?.commit ?? tip) : message,
    start,
    begun,
    takeUncommitted: (paths) => isTaken(ctx, parsed, paths),
    earlier: earlier && { commit: earlier.commit, from },
    isSquash,
    now: systemClock.now(),
    scratch: scratch.path,
  })
  if (run !== undefined)
    await recordApplied(repo, await openQuarantine(repo, scratch.path), { run, tree, from })
  return merged
}

async function isTaken(
  { terminal }: CommandContext,
  parsed: Parsed,
  paths: readonly string[],
): Promise<boolean> {
  if (parsed.has('with-uncommitted')) return true
  if (!terminal.isInteractive || parsed.has('json')) return false
  terminal.say('these files were not committed when it began, and would be committed with it:')
  for (const path of paths.slice(0, LISTED)) terminal.say(`  ${printable(path)}`)
  if (paths.length > LISTED) terminal.say(`  and ${paths.length - LISTED} more`)
  return isYes(terminal, 'commit them too?')
}

const LISTED = 20

function isOnIt(name: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'merge.same',
    message: `you are on the branch ${name}, which is what would be merged`,
    hint: 'go to the branch that it shall be merged into: git switch BRANCH',
  })
}

/** One that has all of the result, where that is asked for. */
async function branchFor(
  ctx: CommandContext,
  parsed: Parsed,
  { repo, branches }: { readonly repo: Repository; readonly branches: RunFinder['branches'] },
  run: Run,
): Promise<string> {
  const withGated = gateChoice(parsed)
  const found = newestOf(branches, run.id, run.info.result?.tree)
  if (
    found &&
    found.result === run.info.result?.tree &&
    (withGated === 'ask' || (await treeOf(repo, found.commit)) === found.result)
  )
    return found.name
  const back = await bringBack(ctx, repo, run, {
    template: branchTemplate(ctx, parsed, repo.root),
    withGated,
    // What is printed is what was merged.
    isJson: false,
    isAgain: withGated !== 'ask',
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

/** The words of a commit as they are. */
async function messageOf(repo: Repository, commit: ObjectId): Promise<string> {
  const text = await gitText(['cat-file', 'commit', commit], userGit(repo))
  return text.slice(text.indexOf('\n\n') + 2)
}
