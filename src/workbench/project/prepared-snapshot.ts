/**
 * A snapshot with a copy of the project on its environment. It is kept, so an unchanged repository is not
 * copied again and a changed one only sends the difference.
 */

import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import type { RunOptions } from '../../client/runs.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import type { Snapshot } from '../../client/snapshots.ts'
import { homeOf } from '../../core/environment.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { MOST_LISTED_RUNS } from '../../core/run.ts'
import { PREPARED_LABEL } from '../../core/snapshot.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { type KnownState, packOf } from '../../sync/git/state/pack.ts'
import { prepareScript, stashIn, stashOf } from '../../sync/git/state/prepare-script.ts'
import {
  type ProjectState,
  type ProjectStateOptions,
  readProjectState,
} from '../../sync/git/state/project-state.ts'
import { canonicalJson } from '../../util/canonical-json.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { Prebuild } from '../devcontainer/lifecycle-scripts.ts'
import { interruptibly, makeInterruptibly } from '../on-interrupt.ts'
import type { Workbench } from '../workbench.ts'
import { plainName } from './open-project.ts'
import { DRAFT, oldStarts, projectDirectory, projectKey, scratchOf, startObjects } from './project-state.ts'

const STATE_LABEL = 'agentpod/state'
const ENVIRONMENT_LABEL = 'agentpod/environment'
/** How many states of one project are kept. */
const KEPT_SNAPSHOTS = 8
const PREPARE_TTL_MS = 30 * 60_000
const PREBUILD_TTL_MS = 90 * 60_000

export interface PrepareSnapshotOptions {
  readonly repo: Repository
  readonly held: HeldState
  /** The options of the sandboxes that start from the snapshot. */
  readonly options: CreateOptions
  readonly user: string
  readonly generated: readonly string[]
  /** The directory of the copy. */
  readonly workspace: string
  /** Commands of a devcontainer that prepare the copy, and what they run with. */
  readonly prebuild?:
    | {
        readonly scripts: Prebuild
        readonly environment: Pick<NonNullable<CreateOptions['environment']>, 'variables' | 'path' | 'sudo'>
        readonly network: CreateOptions['network'] | undefined
        /** Settings of package managers, below the user's home. */
        readonly files: readonly { readonly path: string; readonly text: string }[]
      }
    | undefined
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
  o: Pick<ProjectStateOptions, 'isClean' | 'settings' | 'onListed'>,
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
  const directory = projectDirectory(bench.home, key)
  const place = { bench, pod, o, state, key, directory, workspace, stash: stashIn(home) }
  return {
    snapshot: await snapshotOf(place),
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
  readonly bench: Workbench
  readonly pod: AgentPod
  readonly o: PrepareSnapshotOptions
  readonly state: ProjectState
  readonly key: string
  readonly directory: string
  readonly workspace: string
  readonly stash: string
}

/** The states that were sent, by path of the submodule; the project's own path is ''. */
type Sent = Readonly<Record<string, KnownState>>

async function snapshotOf(place: Place): Promise<string> {
  const { bench, pod } = place
  const labels = {
    [PREPARED_LABEL]: place.key.slice(0, 40),
    [ENVIRONMENT_LABEL]: environmentKey(place),
    [STATE_LABEL]: stateDigest(place),
  }
  const found = await pod.snapshots.list({ labels: { [PREPARED_LABEL]: labels[PREPARED_LABEL] } })
  // SECURITY: anyone may set labels, and an admin sees every owner's snapshots. A snapshot with our labels
  // could decide what runs with our key. So a snapshot counts as ours only if this machine recorded that it
  // took it.
  const ours = found.filter((one) => existsSync(sentFile(place, one.id)))
  const usable = ours.filter(
    (one) => one.state === 'ready' && one.labels[ENVIRONMENT_LABEL] === labels[ENVIRONMENT_LABEL],
  )
  const same = usable.find((one) => one.labels[STATE_LABEL] === labels[STATE_LABEL])
  if (same) return same.id
  const [last] = usable
  using progress = bench.person.progress({})
  progress.status(last ? 'updating the copy of the project' : 'copying the project')
  const sandbox = await makeInterruptibly(() => preparing(place, last))
  const fill = async (): Promise<string> => {
    await send(place, sandbox, last ? readSent(place, last.id) : {})
    const { prebuild, user } = place.o
    if (prebuild) {
      const { runPrebuild } = await import('../devcontainer/run-prebuild.ts')
      for (const { path, text } of prebuild.files) await sandbox.writeFile(path, Buffer.from(text), { user })
      await runPrebuild(bench, sandbox, { prebuild: prebuild.scripts, user, isNew: last === undefined })
    }
    // The snapshot of a stopped sandbox needs no pause.
    await sandbox.stop()
    const taken = await sandbox.snapshot({ labels })
    writeSent(place, taken.id)
    await forgetOlder(place, ours.slice(KEPT_SNAPSHOTS - 1))
    return taken.id
  }
  try {
    return await interruptibly(() => sandbox.destroy(), fill)
  } finally {
    await sandbox.destroy()
  }
}

/**
 * SECURITY: only git, and commands of the project's devcontainer, have run in this sandbox when its snapshot
 * is taken: no services, no agent, and without such commands no network. It is created with nothing but the
 * options in `environmentKey`: later runs inherit what they do not set, so a sandbox with sudo must not lead
 * to others with sudo.
 */
function preparing({ pod, o }: Place, last: Snapshot | undefined): Promise<Sandbox> {
  const { base, image, digest, user } = o.options.environment ?? {}
  const { diskMib } = o.options.resources ?? {}
  const environment = { base, image, digest, user, ...o.prebuild?.environment }
  return pod.create({
    ...(o.options.provider !== undefined && !last && { provider: o.options.provider }),
    ...(o.options.isolation !== undefined && { isolation: o.options.isolation }),
    labels: { 'agentpod/preparing': 'project' },
    resources: { diskMib },
    // Runs inherit them from the snapshot.
    ...(o.options.ephemeral && { ephemeral: o.options.ephemeral }),
    network: o.prebuild
      ? { mode: 'allowlist', allow: [], ...dropUndefined(o.prebuild.network ?? {}) }
      : { mode: 'off' },
    lifetime: { ttlMs: o.prebuild ? PREBUILD_TTL_MS : PREPARE_TTL_MS, whenOver: 'destroy' },
    ...(last ? { snapshot: last.id } : { environment }),
  })
}

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

/** Identifies the environment of a copy. Another environment needs another copy. */
function environmentKey({ key, o, workspace }: Place): string {
  const { base, image, digest, user } = o.options.environment ?? {}
  const { diskMib } = o.options.resources ?? {}
  const { provider, isolation } = o.options
  const known = {
    key,
    base,
    ...(image !== undefined && { image }),
    ...(provider !== undefined && { provider }),
    ...(isolation !== undefined && { isolation }),
    digest,
    user: user ?? o.user,
    workspace,
    aside: o.generated,
    diskMib,
    ...(o.prebuild && { prebuild: o.prebuild }),
    ...(o.options.ephemeral && { ephemeral: o.options.ephemeral }),
  }
  return sha256Hex(canonicalJson({ ...known, form: 2 })).slice(0, 40)
}

function stateDigest({ state }: Place): string {
  const of = ({ commit, tree, branch, shallow }: ProjectState): object => ({ commit, tree, branch, shallow })
  const submodules = state.submodules.map(({ path, state: inner }) => ({ path, ...of(inner) }))
  return sha256Hex(canonicalJson({ ...of(state), submodules })).slice(0, 40)
}

function sentFile({ directory }: Place, snapshot: string): string {
  return join(directory, `sent-${snapshot}.json`)
}

function writeSent(place: Place, snapshot: string): void {
  const of = ({ commit, tree, shallow }: ProjectState): KnownState => ({ commit, tree, shallow })
  const sent: Record<string, KnownState> = { '': of(place.state) }
  for (const { path, state } of place.state.submodules) sent[path] = of(state)
  writeFileSync(sentFile(place, snapshot), JSON.stringify(sent), { mode: 0o600 })
}

/** An empty record means that everything is sent. */
function readSent(place: Place, snapshot: string): Sent {
  try {
    return JSON.parse(readFileSync(sentFile(place, snapshot), 'utf8')) as Sent
  } catch {
    return {}
  }
}

/** A snapshot that a sandbox is being created from cannot be removed now; a later call removes it. */
async function forgetOlder(place: Place, old: readonly Snapshot[]): Promise<void> {
  for (const { id } of old) {
    try {
      await place.pod.snapshots.remove(id)
      rmSync(sentFile(place, id), { force: true })
    } catch (error) {
      if (!isAgentPodError(error)) throw error
    }
  }
}
