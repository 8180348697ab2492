/**
 * A snapshot with a copy of the project on its environment. It is kept, so an unchanged repository is not
 * copied again and a changed one only sends the difference.
 */

import { cpSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import type { RunOptions } from '../../client/runs.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import { homeOf } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { MOST_LISTED_RUNS } from '../../core/run.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { type KnownState, packOf } from '../../sync/git/state/pack.ts'
import { prepareScript, stashIn, stashOf } from '../../sync/git/state/prepare-script.ts'
import {
  type ProjectState,
  type ProjectStateOptions,
  readProjectState,
} from '../../sync/git/state/project-state.ts'
import { canonicalJson } from '../../util/canonical-json.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { Workbench } from '../workbench.ts'
import { type CopyEnvironment, keptSnapshot } from './kept-snapshot.ts'
import { plainName } from './open-project.ts'
import { DRAFT, oldStarts, projectKey, scratchOf, startObjects } from './project-state.ts'

export interface PrepareSnapshotOptions extends CopyEnvironment {
  readonly repo: Repository
  readonly held: HeldState
}

export interface PreparedSnapshot {
  readonly snapshot: string
  readonly project: NonNullable<RunOptions['project']>
  readonly state: ProjectState
}

/** The project's present state. Its objects exist until this is disposed of. */
export interface HeldState extends Disposable {
  readonly state: ProjectState
}

export async function holdState(
  { home }: Workbench,
  repo: Repository,
  o: Pick<ProjectStateOptions, 'isClean' | 'settings' | 'onListed' | 'isWholeIndex'>,
): Promise<HeldState> {
  const scratch = scratchOf(home, projectKey(repo))
  try {
    const state = await readProjectState(repo, { ...o, exclude: [home.root], scratch: scratch.path })
    return { state, [Symbol.dispose]: () => scratch[Symbol.dispose]() }
  } catch (error) {
    scratch[Symbol.dispose]()
    throw error
  }
}

export async function prepareSnapshot(
  bench: Workbench,
  pod: AgentPod,
  o: PrepareSnapshotOptions,
): Promise<PreparedSnapshot> {
  const { repo, user } = o
  const { state } = o.held
  const key = projectKey(repo)
  for (const text of state.notes) bench.person.notice({ kind: 'note', text })
  keepStart(bench.home, key, state)
  await forgetStarts(bench.home, pod, key)
  const home = homeOf(user)
  const name = plainName(basename(repo.root))
  const { workspace } = o
  const place = { o, state, workspace, stash: stashIn(home) }
  return {
    snapshot: await keptSnapshot(bench, pod, o, {
      key,
      digest: stateDigest(state),
      record: sentText(state),
      send: (sandbox, last) => send(place, sandbox, last === undefined ? {} : readSent(last)),
    }),
    state,
    project: {
      workspace,
      name,
      key,
      ...(state.commit !== undefined && { commit: state.commit }),
      tree: state.tree,
      aside: [...o.generated],
    },
  }
}

/** Keeps the objects that a branch is made from later, even if the user's files have changed by then. */
function keepStart(home: Home, key: string, { commit, tree, scratch, changed }: ProjectState): void {
  const kept = startObjects(home, key, tree)
  if ((commit !== undefined && changed.length === 0) || existsSync(kept)) return
  const draft = mkdtempSync(`${kept}${DRAFT}`)
  cpSync(join(scratch, 'objects'), draft, { recursive: true, filter: (path) => basename(path) !== 'info' })
  try {
    renameSync(draft, kept)
  } catch (error) {
    // Another call has kept the same objects meanwhile.
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(kept)) throw error
  }
}

/** Removes kept objects that no run needs any more. */
async function forgetStarts(home: Home, pod: AgentPod, key: string): Promise<void> {
  const old = oldStarts(home, key)
  if (old.length === 0) return
  const runs = await pod.runs.list({ project: key })
  if (runs.length >= MOST_LISTED_RUNS) return
  const used = new Set(runs.map(({ info }) => info.project?.tree))
  for (const tree of old)
    if (!used.has(tree)) rmSync(startObjects(home, key, tree), { recursive: true, force: true })
}

interface Place {
  readonly o: PrepareSnapshotOptions
  readonly state: ProjectState
  readonly workspace: string
  readonly stash: string
}

/** The states that were sent, by path of the submodule; the project's own path is ''. */
type Sent = Readonly<Record<string, KnownState>>

async function send(place: Place, sandbox: Sandbox, sent: Sent): Promise<void> {
  const { o, state } = place
  const paths = state.submodules.map(({ path }) => path)
  await sendOne(place, sandbox, { path: '', repo: o.repo, state, known: sent[''], submodules: paths })
  for (const { path, repository, state: inner } of state.submodules)
    await sendOne(place, sandbox, { path, repo: repository, state: inner, known: sent[path], submodules: [] })
}

async function sendOne(
  { stash, workspace, o }: Place,
  sandbox: Sandbox,
  one: {
    readonly path: string
    readonly repo: Repository
    readonly state: ProjectState
    readonly known: KnownState | undefined
    readonly submodules: readonly string[]
  },
): Promise<void> {
  const { user } = o
  const own = stashOf(stash, one.path)
  const pack = `${own}/arriving.pack`
  await sandbox.writeFile(pack, await packOf(one.repo, one.state, one.known), { user })
  const { commit, tree, branch, shallow } = one.state
  const script = prepareScript({
    workspace: one.path === '' ? workspace : `${workspace}/${one.path}`,
    stash: own,
    commit,
    tree,
    branch,
    shallow,
    aside: one.path === '' ? o.generated : [],
    packs: [pack],
    submodules: one.submodules,
    // Only git has run in the sandbox of a snapshot that this one continues.
    isUntouched: one.known !== undefined && o.prebuild === undefined,
  })
  const child = sandbox.exec(script.command, { args: script.args, user, cwd: '/' })
  let words = ''
  for await (const { data } of child.output()) words = (words + data.toString('utf8')).slice(-2000)
  if (child.exit.exitCode === 0) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: /git: not found/.test(words) ? 'prepare.no_git' : 'prepare.failed',
    message: `the project could not be copied into the sandbox: ${showHidden(words.trim().split('\n').at(-1) ?? '')}`,
    hint: /git: not found/.test(words)
      ? 'the base has no git: add it to `packages` of [environment] in agentpod.toml, or use an image that has it'
      : undefined,
  })
}

function stateDigest(state: ProjectState): string {
  const of = ({ commit, tree, branch, shallow }: ProjectState): object => ({ commit, tree, branch, shallow })
  const submodules = state.submodules.map(({ path, state: inner }) => ({ path, ...of(inner) }))
  return sha256Hex(canonicalJson({ ...of(state), submodules })).slice(0, 40)
}

/** What is sent, for the copy that continues this one. */
function sentText(state: ProjectState): string {
  const of = ({ commit, tree, shallow }: ProjectState): KnownState => ({ commit, tree, shallow })
  const sent: Record<string, KnownState> = { '': of(state) }
  for (const { path, state: inner } of state.submodules) sent[path] = of(inner)
  return JSON.stringify(sent)
}

/** An empty record means that everything is sent. */
function readSent(text: string): Sent {
  try {
    return JSON.parse(text) as Sent
  } catch {
    return {}
  }
}
