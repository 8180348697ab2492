/** The base of a run's next commit, and bringing the user's later commits into its sandbox. */
import { existsSync } from 'node:fs'
import type { AgentPod } from '../../client/client.ts'
import type { Run, RunInfo } from '../../client/runs.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import { AgentPodError } from '../../core/error.ts'
import { isAncestor, type Update, updatedCommit, updateOf } from '../../sync/git/branch/update-run.ts'
import {
  EXECUTABLE_MODE,
  LINK_MODE,
  SUBMODULE_MODE,
  type TreeChange,
} from '../../sync/git/plumbing/compare-trees.ts'
import { type GitOptions, gitText } from '../../sync/git/plumbing/git.ts'
import { readObjects } from '../../sync/git/plumbing/objects.ts'
import { userGit } from '../../sync/git/plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../../sync/git/plumbing/repository.ts'
import { packContents } from '../../sync/tar.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { projectKey, scratchOf, startObjects } from '../project/project-state.ts'
import { newestOf, type RunBranch } from '../result/list-run-branches.ts'
import type { ResultBase } from '../result/open-result.ts'
import type { Workbench } from '../workbench.ts'

/** The parent of a run's next commit: its last turn, or a later update. Undefined for the first turn. */
export async function turnBase(
  repo: Repository,
  run: string,
  last: ObjectId | undefined,
): Promise<ResultBase | undefined> {
  const updated = await updatedCommit(repo, run)
  const isNewer = updated !== undefined && (last === undefined || !(await isAncestor(repo, updated, last)))
  const commit = isNewer ? updated : last
  return commit === undefined ? undefined : { commit, tree: await treeOf(repo, commit) }
}

/**
 * What all turns of a run are compared with: the user's newest commits in it. Undefined: the start of the
 * run.
 */
export async function updatedStart(repo: Repository, run: string): Promise<ResultBase | undefined> {
  const updated = await updatedCommit(repo, run)
  if (updated === undefined) return undefined
  const parents = (await gitText(['rev-list', '--parents', '--max-count=1', updated], userGit(repo))).split(
    ' ',
  )
  // The commit is the user's own, or a merge of ours whose second parent is the user's.
  const commit = parents.length === 3 && (await isOurs(repo, updated)) ? (parents[2] ?? updated) : updated
  return { commit, tree: await treeOf(repo, commit) }
}

async function isOurs(repo: Repository, commit: ObjectId): Promise<boolean> {
  const text = await gitText(['cat-file', 'commit', commit], userGit(repo))
  return /\n\nMerge .* into the work of run[a-z0-9]+\s*$/.test(text)
}

function treeOf(repo: Repository, commit: ObjectId): Promise<ObjectId> {
  return gitText(['rev-parse', '--verify', `${commit}^{tree}`], userGit(repo))
}

type Project = NonNullable<RunInfo['project']>

const MOST_NAMED = 20
const LARGEST_UPDATE = 256 * 1024 * 1024

/** Brings the user's later commits into the sandbox of an ended run. Gives the text that tells the agent. */
export async function updateRun(
  bench: Workbench,
  pod: AgentPod,
  repo: Repository,
  branches: readonly RunBranch[],
  run: Run,
): Promise<string> {
  const project = projectOf(repo, run.info)
  using scratch = scratchOf(bench.home, projectKey(repo))
  const last = newestOf(branches, run.id, run.info.result?.tree)
  const base = await turnBase(repo, run.id, last?.commit)
  const update = await updateOf(repo, {
    run: run.id,
    last: base?.commit,
    start: { commit: project.commit ?? undefined, tree: project.tree },
    alsoObjects: [startObjects(bench.home, project.key, project.tree)].filter((path) => existsSync(path)),
    head: repo.commit ?? '',
    name: repo.branch ?? 'HEAD',
    now: systemClock.now(),
    scratch: scratch.path,
  })
  if (!update) {
    bench.person.notice({ kind: 'info', text: 'the run already has all of your commits' })
    return ''
  }
  const { sandboxId, user } = await run.takeOver()
  await write(await pod.get(sandboxId), user, project.workspace, update)
  await update.record()
  const paths = update.changes.map(({ path }) => showHidden(path))
  const named = `${paths.slice(0, MOST_NAMED).join(', ')}${paths.length > MOST_NAMED ? ', and more' : ''}`
  bench.person.notice({
    kind: 'info',
    text: `brought your commits into the sandbox: ${paths.length} files changed`,
  })
  return `(The user's newer commits were brought into the project. They changed ${named}.)\n\n`
}

function projectOf(repo: Repository, { id, state, project, result }: RunInfo): Project {
  const fail = (message: string, hint: string): AgentPodError =>
    new AgentPodError({ code: 'failed_precondition', reason: 'run.no_update', message, hint })
  if (state !== 'ended')
    throw fail('--update needs a run that has ended, and this one is working', `agentpod follow ${id}`)
  if (!project || repo.commit === undefined || project.key !== projectKey(repo))
    throw fail('there are no commits here to give to the run', 'change to the repository of the run')
  if (!result)
    throw fail('the run has no result to combine your commits with', 'send it without --update first')
  return project
}

/** Writes the changed files inside, as the user of the copy. */
async function write(
  sandbox: Sandbox,
  user: string,
  workspace: string,
  { changes, quarantine }: Update,
): Promise<void> {
  const usable = changes.filter(
    ({ isText, after, before }) => isText && ![before?.mode, after?.mode].includes(SUBMODULE_MODE),
  )
  const gone = usable.filter(({ after }) => after === undefined).map(({ path }) => path)
  if (gone.length > 0) await remove(sandbox, user, workspace, gone)
  const archive = packContents(await contentsOf(quarantine, usable))
  await sandbox.unpack(workspace, archive, { user })
}

async function remove(
  sandbox: Sandbox,
  user: string,
  workspace: string,
  paths: readonly string[],
): Promise<void> {
  const script =
    'while IFS= read -r path; do rm -f -- "$path"; rmdir -p -- "$(dirname -- "$path")" 2>/dev/null || :; done'
  const plain = paths.filter((path) => !path.includes('\n'))
  const child = sandbox.exec('/bin/sh', { args: ['-c', script], user, cwd: workspace, stdin: true })
  await child.write(Buffer.from(plain.map((path) => `./${path}\n`).join('')))
  await child.closeStdin()
  await child.wait()
}

async function contentsOf(
  quarantine: GitOptions,
  changes: readonly TreeChange[],
): Promise<{ path: string; data: Buffer; isExecutable: boolean; isLink: boolean }[]> {
  const wanted = changes.flatMap(({ after }) => (after ? [after.id] : []))
  const limits = { type: 'blob', mostBytes: LARGEST_UPDATE, mostBytesInAll: LARGEST_UPDATE }
  const contents = await readObjects(quarantine, wanted, limits)
  return changes.flatMap(({ path, after }) => {
    if (!after) return []
    const data = contents.get(after.id)
    if (data === undefined)
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'update.too_large',
        message: `your commits change more than ${LARGEST_UPDATE / 2 ** 20} MiB, the limit of --update`,
        hint: 'start a new run',
      })
    return [{ path, data, isExecutable: after.mode === EXECUTABLE_MODE, isLink: after.mode === LINK_MODE }]
  })
}
