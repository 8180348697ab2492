/** What `diff`, `apply` and `merge` work on: the result of a run, or a branch that the user names. */

import type { Run } from '../../client/runs.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { noRepository, type RunFinder, repositoryHere, runFinder } from '../run/find-run.ts'
import { updatedStart } from '../run/update-run.ts'
import type { Workbench } from '../workbench.ts'
import { type NamedBranch, namedBranch, openBranch } from './named-branch.ts'
import { type OpenResult, openResult } from './open-result.ts'

export type ResultTarget =
  | { readonly kind: 'run'; readonly repo: Repository; readonly run: Run; readonly finder: RunFinder }
  | { readonly kind: 'branch'; readonly repo: Repository; readonly branch: NamedBranch }

export async function resultTarget(bench: Workbench, word: string | undefined): Promise<ResultTarget> {
  const repo = await repositoryHere(bench)
  const branch = repo && word !== undefined ? await namedBranch(repo, word) : undefined
  if (repo && branch) return { kind: 'branch', repo, branch }
  const finder = await runFinder(bench)
  const run = await finder.find(word)
  if (!finder.repo) throw noRepository()
  return { kind: 'run', repo: finder.repo, run, finder }
}

/** Undefined when a run changed nothing. */
export async function openTarget(bench: Workbench, target: ResultTarget): Promise<OpenResult | undefined> {
  return target.kind === 'run'
    ? openResult(bench, target.repo, target.run, await updatedStart(target.repo, target.run.id))
    : openBranch(bench, target.repo, target.branch)
}

/** How the user can name it again. */
export function targetName(target: ResultTarget): string {
  return target.kind === 'run' ? target.run.id : target.branch.name
}

/** The run that made it; undefined for the branch of a command. */
export function runOf(target: ResultTarget): string | undefined {
  return target.kind === 'run' ? target.run.id : target.branch.run
}
