/**
 * A copy of a repository for one command. Its changes come back as a branch, in the same way as an agent's
 * work.
 */
import { join } from 'node:path'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { isAgentPodError } from '../../core/error.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { type ScriptEvent, type TakenResult, takeResult } from '../../sync/git/result/take-result.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { besideGroup } from '../compose/beside-group.ts'
import { interruptibly, makeInterruptibly } from '../on-interrupt.ts'
import { projectLabel } from '../project/project-label.ts'
import { recordSandbox } from '../project/project-sandboxes.ts'
import { scratchOf } from '../project/project-state.ts'
import type { Workbench } from '../workbench.ts'
import { changedPaths } from './changed-paths.ts'
import { keptLifetime } from './kept-lifetime.ts'
import { type PreparedRepository, prepareRepository, type RepositoryRequest } from './prepare-repository.ts'
import type { BringBackOptions, CopyChanges, ProjectCopy } from './project-copy.ts'

/** The snapshot's own time to live is short, because its sandbox only had to unpack the project. */
const DEFAULT_TTL_MS = 3_600_000

export async function copyRepository(
  bench: Workbench,
  repo: Repository,
  request: RepositoryRequest,
): Promise<ProjectCopy> {
  const prepared = await prepareRepository(bench, repo, request)
  const { options, project, directory, user } = prepared
  const beside = { ...prepared.outside, provider: options.provider, isKept: request.isKept }
  const pod = await bench.client()
  const create = (wanted: CreateOptions): Promise<Sandbox> => makeInterruptibly(() => pod.create(wanted))
  const sandbox = await besideGroup(bench, beside, (place) =>
    create({
      ...options,
      ...(place && { place }),
      labels: { ...options.labels, ...projectLabel(project.name) },
      // The snapshot was prepared without a network, so the policy is set here and not inherited.
      network: { mode: 'allowlist', allow: [], ...dropUndefined(prepared.network) },
      lifetime: request.isKept
        ? keptLifetime(options.lifetime)
        : { ttlMs: DEFAULT_TTL_MS, whenOver: 'destroy', ...dropUndefined(options.lifetime) },
      snapshot: prepared.snapshot,
    }),
  )
  if (request.isKept)
    recordSandbox(bench.home, sandbox.id, { directory: repo.root, workspace: project.workspace })
  const write = async (): Promise<void> => {
    for (const { path, text } of prepared.files) await sandbox.writeFile(path, Buffer.from(text), { user })
  }
  try {
    await interruptibly(() => sandbox.destroy(), write)
  } catch (error) {
    await sandbox.destroy()
    throw error
  }
  return {
    sandbox,
    workdir: directory === '' ? project.workspace : `${project.workspace}/${directory}`,
    bringBack: (o) => bringBack(bench, repo, prepared, sandbox, o),
  }
}

/** The code that makes a branch is loaded only when something changed. */
async function bringBack(
  bench: Workbench,
  repo: Repository,
  { project, user, state, snapshot }: PreparedRepository,
  sandbox: Sandbox,
  o: BringBackOptions,
): Promise<CopyChanges> {
  const only = await changedPaths(sandbox, { ...project, snapshot })
  if (only?.length === 0) return { kind: 'none' }
  using scratch = scratchOf(bench.home, project.key)
  const file = join(scratch.path, 'result.pack')
  const run = (command: string, args: readonly string[]): AsyncIterable<ScriptEvent> =>
    eventsOf(sandbox, user, command, args)
  const result = await takeResult({ project, user, file, only, run }).catch((error: unknown) => {
    // A program that is still running may have replaced what is on the list: then everything is looked at.
    if (only === undefined || !isAgentPodError(error, 'data_loss')) throw error
    return takeResult({ project, user, file, run })
  })
  const isSame = result.tree === project.tree
  if (isSame) return leftOutOnly(result)
  const { makeCommandBranch } = await import('../result/command-branch.ts')
  return await makeCommandBranch(bench, repo, {
    ...o,
    project,
    result,
    file,
    scratch: scratch.path,
    isCommitted: project.commit !== undefined && state.changed.length === 0,
  })
}

/** The trees are the same; files may still have been left out of the result. */
function leftOutOnly({ tooLarge, leftOut }: TakenResult): CopyChanges {
  if (tooLarge.length + leftOut.length === 0) return { kind: 'none' }
  return {
    kind: 'branch',
    branch: undefined,
    changes: [],
    notes: [],
    gated: [],
    tooLarge: tooLarge.map(({ path }) => path),
    unusable: leftOut,
  }
}

async function* eventsOf(
  sandbox: Sandbox,
  user: string,
  command: string,
  args: readonly string[],
): AsyncGenerator<ScriptEvent> {
  const child = sandbox.exec(command, { args, user, cwd: '/' })
  for await (const { stream, data } of child.output())
    yield { kind: stream === 'stderr' ? 'stderr' : 'stdout', data }
  yield { kind: 'end', exitCode: child.exit.exitCode }
}
