/** What `diff`, `apply` and `merge` are about: what a run came to, or a branch that was named. */
import type { Run } from '../client/runs.ts'
import type { Repository } from '../sync/git/repository.ts'
import type { CommandContext } from './command.ts'
import { type NamedBranch, namedBranch, openBranch } from './named-branch.ts'
import { noRepository, type RunFinder, repositoryHere, runFinder } from './run-ref.ts'
import { type OpenResult, openResult } from './run-result.ts'
import { updatedStart } from './run-update.ts'

export type ResultTarget =
  | { readonly kind: 'run'; readonly repo: Repository; readonly run: Run; readonly finder: RunFinder }
  | { readonly kind: 'branch'; readonly repo: Repository; readonly branch: NamedBranch }

export async function resultTarget(ctx: CommandContext, word: string | undefined): Promise<ResultTarget> {
  const repo = await repositoryHere(ctx)
  const branch = repo && word !== undefined ? await namedBranch(repo, word) : undefined
  if (repo && branch) return { kind: 'branch', repo, branch }
  const finder = await runFinder(ctx)
  const run = await finder.find(word)
  if (!finder.repo) throw noRepository()
  return { kind: 'run', repo: finder.repo, run, finder }
}

/** Undefined where a run has left nothing. */
export async function openTarget(ctx: CommandContext, target: ResultTarget): Promise<OpenResult | undefined> {
  return target.kind === 'run'
    ? openResult(ctx, target.repo, target.run, await updatedStart(target.repo, target.run.id))
    : openBranch(ctx, target.repo, target.branch)
}

/** What it goes by on the command line. */
export function targetName(target: ResultTarget): string {
  return target.kind === 'run' ? target.run.id : target.branch.name
}

/** The run behind it; undefined for the branch of a command. */
export function runOf(target: ResultTarget): string | undefined {
  return target.kind === 'run' ? target.run.id : target.branch.run
}
