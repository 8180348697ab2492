/** Finds the run that the user names. */
import type { AgentPod } from '../../client/client.ts'
import type { Run, RunInfo } from '../../client/runs.ts'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { prefixOf } from '../../sync/git/branch/branch-name.ts'
import { openRepository, type Repository } from '../../sync/git/plumbing/repository.ts'
import { nearest } from '../../util/nearest.ts'
import { projectKey } from '../project/project-state.ts'
import { type RunBranch, runBranches } from '../result/list-run-branches.ts'
import type { Workbench } from '../workbench.ts'
import { branchTemplate } from './branch-template.ts'
import { labelOf } from './run-label.ts'

/** Undefined outside a repository: runs can be named anywhere. */
export async function repositoryHere({ cwd, env }: Workbench): Promise<Repository | undefined> {
  try {
    return await openRepository(cwd, env)
  } catch (error) {
    if (isAgentPodError(error) && (error.reason === 'repository.none' || error.reason === 'git.none'))
      return undefined
    throw error
  }
}

export interface RunFinder {
  readonly pod: AgentPod
  readonly repo: Repository | undefined
  /** Newest first: of this repository, or of all outside one. */
  readonly runs: readonly Run[]
  readonly branches: readonly RunBranch[]
  /** The newest run for an undefined word. */
  find(word: string | undefined): Promise<Run>
}

export async function runFinder(bench: Workbench): Promise<RunFinder> {
  const repo = await repositoryHere(bench)
  const pod = await bench.client()
  const runs = await pod.runs.list(repo ? { project: projectKey(repo) } : {})
  const branches = repo ? await runBranches(repo, prefixOf(branchTemplate(bench.home, repo.root))) : []
  const find = async (word: string | undefined): Promise<Run> => {
    const infos = runs.map(({ info }) => info)
    const found = chooseRun(word, infos, branches)
    if (found !== undefined) return runs.find(({ id }) => id === found) ?? pod.runs.get(found)
    // It may belong to another repository.
    const all = await pod.runs.list()
    const elsewhere = word?.startsWith('run')
      ? chooseRun(
          word,
          all.map(({ info }) => info),
          [],
        )
      : undefined
    if (word === undefined || elsewhere === undefined) throw unknown(word, infos)
    return all.find(({ id }) => id === elsewhere) ?? pod.runs.get(elsewhere)
  }
  return { pod, repo, runs, branches, find }
}

/**
 * The id of the run that a word names: an id or its beginning, a branch, or an agent's name with or without a
 * number. Undefined when there is none; `invalid_argument` when there are several.
 */
export function chooseRun(
  word: string | undefined,
  runs: readonly Pick<RunInfo, 'id' | 'agent' | 'number'>[],
  branches: readonly Pick<RunBranch, 'name' | 'run'>[],
): string | undefined {
  if (word === undefined) return runs[0]?.id
  const exact = runs.find(({ id }) => id === word)
  if (exact) return exact.id
  const branch = branches.find(({ name }) => name === word)
  if (branch) return branch.run
  const labelled = runs.find((run) => labelOf(run) === word) ?? runs.find(({ agent }) => agent === word)
  if (labelled) return labelled.id
  const begun = word.length < SHORTEST ? [] : runs.filter(({ id }) => id.startsWith(word))
  if (begun.length < 2) return begun[0]?.id
  throw invalid(
    'run.ambiguous',
    `${begun.length} runs begin with ${word}`,
    `use more letters: ${begun
      .slice(0, 5)
      .map(({ id }) => id)
      .join(', ')}`,
  )
}

/** `run` and one letter more. */
const SHORTEST = 4

function unknown(
  word: string | undefined,
  runs: readonly Pick<RunInfo, 'id' | 'agent' | 'number'>[],
): AgentPodError {
  const near = word && nearest(word, [...new Set(runs.map(labelOf))])
  return new AgentPodError({
    code: 'not_found',
    reason: 'run.unknown',
    message:
      word === undefined
        ? 'no agent has run in this repository yet'
        : `there is no run ${JSON.stringify(word.slice(0, 100))}`,
    hint:
      word === undefined
        ? 'agentpod run claude "fix the failing test"'
        : near
          ? `did you mean ${near}?`
          : '`agentpod runs` lists them',
  })
}

export function noRepository(): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'repository.none',
    message: 'this directory is not in a git repository',
    hint: 'change to the directory that the run was started in, and try again',
  })
}
