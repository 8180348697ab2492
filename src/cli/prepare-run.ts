/**
 * A project made ready for runs: a snapshot of a sandbox that holds it, on its environment. It is kept, so that a repository that has not
 * changed is not copied again, and one that has is copied as far as it has.
 */
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { AgentPod } from '../client/client.ts'
import type { RunOptions } from '../client/runs.ts'
import type { CreateOptions, Sandbox } from '../client/sandbox.ts'
import type { Snapshot } from '../client/snapshots.ts'
import { homeOf } from '../core/environment.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Home } from '../core/home.ts'
import { MOST_LISTED_RUNS } from '../core/run.ts'
import { PREPARED_LABEL } from '../core/snapshot.ts'
import { prepareScript, stashIn, stashOf } from '../sync/git/inside-prepare.ts'
import { type KnownState, packOf } from '../sync/git/pack.ts'
import type { Repository } from '../sync/git/repository.ts'
import { type ProjectState, type StateOptions, stateOf } from '../sync/git/state.ts'
import { canonical } from '../util/canonical.ts'
import type { CommandContext } from './command.ts'
import { printable } from './output/terminal.ts'
import { plainName } from './project.ts'
import { DRAFT, oldStarts, projectDirectory, projectKey, scratchOf, startObjects } from './project-objects.ts'

const STATE_LABEL = 'agentpod/state'
const ENVIRONMENT_LABEL = 'agentpod/environment'
/** Of one project; older states go. */
const KEPT_SNAPSHOTS = 8
const PREPARE_TTL_MS = 30 * 60_000

export interface PrepareRun {
  readonly repo: Repository
  readonly held: HeldState
  /** What the sandboxes of runs will be asked for. */
  readonly options: CreateOptions
  readonly user: string
  readonly aside: readonly string[]
}

export interface PreparedRun {
  readonly snapshot: string
  readonly project: NonNullable<RunOptions['project']>
  readonly state: ProjectState
}

/** The project as it is now. What it takes to send it is there for as long as this is held. */
export interface HeldState extends Disposable {
  readonly state: ProjectState
}

export async function holdState(
  { home }: CommandContext,
  repo: Repository,
  o: Pick<StateOptions, 'isClean' | 'settings'>,
): Promise<HeldState> {
  const scratch = scratchOf(home, projectKey(repo))
  try {
    const state = await stateOf(repo, { ...o, exclude: [home.root], scratch: scratch.path })
    return { state, [Symbol.dispose]: () => scratch[Symbol.dispose]() }
  } catch (error) {
    scratch[Symbol.dispose]()
    throw error
  }
}

export async function prepareRun(ctx: CommandContext, pod: AgentPod, o: PrepareRun): Promise<PreparedRun> {
  const { repo, user } = o
  const { state } = o.held
  const key = projectKey(repo)
  for (const note of state.notes) ctx.terminal.say(ctx.terminal.dim(`note: ${printable(note)}`))
  keepStart(ctx.home, key, state)
  await forgetStarts(ctx.home, pod, key)
  const home = homeOf(user)
  const name = plainName(basename(repo.root))
  const workspace = `${home}/${name}`
  const directory = projectDirectory(ctx.home, key)
  const place = { ctx, pod, o, state, key, directory, workspace, stash: stashIn(home) }
  return {
    snapshot: await snapshotOf(place),
    state,
    project: {
      workspace,
      name,
      key,
      ...(state.commit !== undefined && { commit: state.commit }),
      tree: state.tree,
      aside: [...o.aside],
    },
  }
}

/** What a branch is made of later, also when the user's files have changed by then. */
function keepStart(home: Home, key: string, { commit, tree, scratch, changed }: ProjectState): void {
  const kept = startObjects(home, key, tree)
  if ((commit !== undefined && changed.length === 0) || existsSync(kept)) return
  const draft = mkdtempSync(`${kept}${DRAFT}`)
  cpSync(join(scratch, 'objects'), draft, { recursive: true, filter: (path) => basename(path) !== 'info' })
  try {
    renameSync(draft, kept)
  } catch (error) {
    // Another call has kept the same meanwhile.
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(kept)) throw error
  }
}

/** A start is of no more use when no run remembers it. */
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
  readonly ctx: CommandContext
  readonly pod: AgentPod
  readonly o: PrepareRun
  readonly state: ProjectState
  readonly key: string
  readonly directory: string
  readonly workspace: string
  readonly stash: string
}

/** What was sent, by the path of the submodule; the project's own is ''. */
type Sent = Readonly<Record<string, KnownState>>

async function snapshotOf(place: Place): Promise<string> {
  const { ctx, pod } = place
  const labels = {
    [PREPARED_LABEL]: place.key.slice(0, 40),
    [ENVIRONMENT_LABEL]: environmentKey(place),
    [STATE_LABEL]: stateDigest(place),
  }
  const found = await pod.snapshots.list({ labels: { [PREPARED_LABEL]: labels[PREPARED_LABEL] } })
  // SECURITY: labels are free, and an admin sees everybody's: whoever puts ours on a snapshot of theirs would decide what runs with our key. So
  // one is ours where this machine has written down that it took it.
  const ours = found.filter((one) => existsSync(sentFile(place, one.id)))
  const usable = ours.filter(
    (one) => one.state === 'ready' && one.labels[ENVIRONMENT_LABEL] === labels[ENVIRONMENT_LABEL],
  )
  const same = usable.find((one) => one.labels[STATE_LABEL] === labels[STATE_LABEL])
  if (same) return same.id
  const [last] = usable
  ctx.terminal.progress(last ? 'bringing the copy up to date' : 'copying the project')
  const sandbox = await preparing(place, last)
  try {
    await send(place, sandbox, last ? readSent(place, last.id) : {})
    // It has served, and nothing has to be held still for it.
    await sandbox.stop()
    const taken = await sandbox.snapshot({ labels })
    writeSent(place, taken.id)
    await forgetOlder(place, ours.slice(KEPT_SNAPSHOTS - 1))
    return taken.id
  } finally {
    await sandbox.destroy()
    ctx.terminal.clearProgress()
  }
}

/**
 * SECURITY: nothing but git has run in it when its snapshot is taken: no services, no agent, no way out. And it is asked for nothing but what
 * `environmentKey` knows, since what it has is what later runs have where they do not say: one that may become root must not be followed by others that may.
 */
function preparing({ pod, o }: Place, last: Snapshot | undefined): Promise<Sandbox> {
  const { base, image, digest, user } = o.options.environment ?? {}
  const { diskMib } = o.options.resources ?? {}
  const environment = { base, image, digest, user }
  return pod.create({
    ...(o.options.provider !== undefined && !last && { provider: o.options.provider }),
    ...(o.options.isolation !== undefined && { isolation: o.options.isolation }),
    labels: { 'agentpod/preparing': 'project' },
    resources: { diskMib },
    network: { mode: 'off' },
    lifetime: { ttlMs: PREPARE_TTL_MS, whenOver: 'destroy' },
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
    aside: one.path === '' ? o.aside : [],
    packs: [pack],
    submodules: one.submodules,
  })
  const child = sandbox.exec(script.command, { args: script.args, user, cwd: '/' })
  let words = ''
  for await (const { data } of child.output()) words = (words + data.toString('utf8')).slice(-2000)
  if (child.exit.exitCode === 0) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: /git: not found/.test(words) ? 'prepare.no_git' : 'prepare.failed',
    message: `the project could not be put into the sandbox: ${printable(words.trim().split('\n').at(-1) ?? '')}`,
    hint: /git: not found/.test(words)
      ? 'the base has no git: add it to `packages` of [environment] in agentpod.toml, or take an image that has it'
      : undefined,
  })
}

/** What the copy lies on. With another environment it is another copy. */
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
    aside: o.aside,
    diskMib,
  }
  return sha256(canonical({ ...known, form: 2 })).slice(0, 40)
}

function stateDigest({ state }: Place): string {
  const of = ({ commit, tree, branch, shallow }: ProjectState): object => ({ commit, tree, branch, shallow })
  const submodules = state.submodules.map(({ path, state: inner }) => ({ path, ...of(inner) }))
  return sha256(canonical({ ...of(state), submodules })).slice(0, 40)
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

/** Where it is not known any more, everything is sent. */
function readSent(place: Place, snapshot: string): Sent {
  try {
    return JSON.parse(readFileSync(sentFile(place, snapshot), 'utf8')) as Sent
  } catch {
    return {}
  }
}

/** One that a sandbox is being made from stays for now. */
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

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
