/** Executes one vertex of a Dockerfile in a sandbox that is made for it. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { AgentPodError, asAgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Guest } from '../../core/guest.ts'
import type { ProcessExit } from '../../core/guest-process.ts'
import type { SandboxId } from '../../core/id.ts'
import type { NetworkRule } from '../../core/network.ts'
import { LOCAL } from '../../core/principal.ts'
import { BUILD_MOUNTS, type Mount, type RootDirectory, type RootRef } from '../../core/provider.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import type { Engine } from '../../engine/engine.ts'
import { LAYER_OWNER } from '../../engine/snapshots/layers.ts'
import { formatDuration } from '../../util/format-duration.ts'
import {
  BUILD_LABEL,
  type BuildSandboxParts,
  buildLabels,
  exitText,
  inBuildSandbox,
  SPARE_MS,
} from '../build-sandbox.ts'
import type { DockerfileJob, DockerfileRequest } from './dockerfile-request.ts'
import type { Exec, ExecMount, FileAction, Vertex } from './graph.ts'
import { envVariables } from './vertex-key.ts'

/** The files that a vertex begins with. */
export type Below =
  | { readonly kind: 'base'; readonly image: string }
  | { readonly kind: 'layer'; readonly key: string }

export interface VertexRun {
  readonly vertex: Vertex
  readonly name: string
  readonly below: Below
  /** Roots of other vertices that it reads. */
  readonly sources: ReadonlyMap<number, VertexSource>
  /** podfiles. */
  readonly program: RootRef
  /** The directory of a cache mount, if the Dockerfile says whose it is. */
  readonly cacheOwners: ReadonlyMap<ExecMount, CacheOwner>
  readonly request: DockerfileRequest
  readonly network: readonly NetworkRule[]
}

export interface VertexSource {
  readonly root: RootRef
  /** The directory of it that is read; all of it if left out. */
  readonly from?: string | undefined
  /** Whether it is the root of a sandbox or an image, not a build context or the files of a commit. */
  readonly isRoot: boolean
}

export interface CacheOwner {
  readonly uid: number
  readonly gid: number
  readonly mode: number
}

const HELPER_MS = 30 * 60_000
const PROGRAM = `${BUILD_MOUNTS}/bin`
/** Always a temporary file system. */
const WORK_FILE = '/dev/shm/podfiles.json'
const LONGEST_FAULT = 4000
const BUILDER = { owner: LAYER_OWNER, isAdmin: false }

/** What podfiles printed: the digest of what it fetched. */
export interface Ran {
  readonly sandboxId: SandboxId
  readonly printed: string
}

/** The sandbox stays if the vertex succeeds. Otherwise it is destroyed, unless it should be kept. */
export async function runVertex(parts: BuildSandboxParts, run: VertexRun, o: DockerfileJob): Promise<Ran> {
  const { engine } = parts
  const sandbox = await makeSandbox(engine, run, o)
  return await inBuildSandbox(parts, sandbox, o, async () => ({
    sandboxId: sandbox.id,
    printed: await perform(engine, sandbox, run, o),
  }))
}

async function makeSandbox(engine: Engine, run: VertexRun, o: DockerfileJob): Promise<Sandbox> {
  const { vertex, below, request } = run
  const rules = usesNetwork(vertex) ? run.network : []
  const caches = (vertex.exec?.mounts ?? []).filter(({ kind }) => kind === 'cache')
  const volumes = await Promise.all(caches.map((mount) => cacheVolume(engine, mount, o)))
  try {
    return await engine.sandboxes.create(
      {
        owner: LAYER_OWNER,
        provider: o.provider,
        labels: { [BUILD_LABEL]: 'step', ...buildLabels(o) },
        environment: {
          base: 'image',
          ...(below.kind === 'base' ? { image: below.image } : { digest: below.key }),
          user: 'root',
          sudo: true,
        },
        lifetime: { ttlMs: request.timeoutMs + SPARE_MS, whenOver: 'destroy', autoResume: false },
        network: {
          // Without a rule everything is refused, and the error names what was.
          mode: usesNetwork(vertex) ? 'allowlist' : 'off',
          allow: rules,
          deny: request.deny,
          intercept: 'all',
          cache: true,
        },
        ...(volumes.length > 0 && { volumes }),
        rootMounts: mountsFor(run),
        rootDirs: rootDirsFor(vertex),
      },
      o.who,
    )
  } catch (error) {
    throw withPlace(asAgentPodError(error), vertex, request)
  }
}

function usesNetwork({ exec, http, git }: Vertex): boolean {
  return exec ? exec.network !== 'none' : http !== undefined || git !== undefined
}

/** Commands find secrets in /run, which is never part of a layer then. */
function rootDirsFor({ exec, file }: Vertex): readonly RootDirectory[] {
  if (!exec) return file ? ['/tmp', '/run'] : ['/tmp']
  const hasOwnTmp = exec.mounts?.some(({ kind, path }) => kind === 'tmpfs' && path === '/tmp')
  return hasOwnTmp ? [] : ['/tmp']
}

function mountsFor({ vertex, sources, program }: VertexRun): Exclude<Mount, { readonly kind: 'volume' }>[] {
  const mounts: Exclude<Mount, { readonly kind: 'volume' }>[] = [
    { kind: 'root', root: program, path: PROGRAM },
  ]
  for (const { copy } of vertex.file?.actions ?? []) {
    const source = copy && sources.get(copy.from)
    if (copy && source && !mounts.some(({ path }) => path === sourcePath(copy.from)))
      mounts.push({
        kind: 'root',
        root: source.root,
        path: sourcePath(copy.from),
        ...(source.from !== undefined && { from: source.from }),
      })
  }
  for (const mount of vertex.exec?.mounts ?? []) {
    const { kind, path, from, selector, size } = mount
    if (kind === 'tmpfs' && path !== '/tmp')
      mounts.push({ kind: 'tmpfs', path, ...(size ? { sizeBytes: size } : {}) })
    if (kind !== 'bind') continue
    const root = sources.get(from)?.root
    const part = selector === undefined ? '/' : `/${selector.replaceAll(/^[/.]+|\/+$/g, '')}`
    if (root) mounts.push({ kind: 'root', root, path, ...(part !== '/' && { from: part }) })
    else mounts.push({ kind: 'tmpfs', path })
  }
  return mounts
}

function sourcePath(vertex: number): string {
  return `${BUILD_MOUNTS}/in${vertex}`
}

/** Each owner has caches of their own: what one of them leaves there, no other one runs. */
export function cacheName(owner: string, mount: ExecMount): string {
  return `cache-${createHash('sha256')
    .update(JSON.stringify([owner, mount.id ?? mount.path]))
    .digest('hex')
    .slice(0, 24)}`
}

async function cacheVolume(engine: Engine, mount: ExecMount, o: DockerfileJob): Promise<VolumeRequest> {
  const name = cacheName(o.who.owner, mount)
  try {
    engine.volumes.find(name, BUILDER)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
    await engine.volumes
      .create({ name, ...(o.provider !== undefined && { provider: o.provider }) }, BUILDER)
      .catch((failure) => {
        if (!isAgentPodError(failure, 'already_exists')) throw failure
      })
  }
  return { volume: name, path: mount.path, ...(mount.readonly && { readOnly: true }) }
}

async function perform(
  engine: Engine,
  { id, link }: Sandbox,
  run: VertexRun,
  o: DockerfileJob,
): Promise<string> {
  const { guest, ended } = engine.guests.connection(id, LOCAL)
  const { vertex, request } = run
  const gone = AbortSignal.any([o.signal, ended.signal])
  try {
    const { exec, file, http, git } = vertex
    if (file) return await helper(guest, 'apply', workOf(file.actions, run), run, gone)
    if (http) return await helper(guest, 'fetch', http, run, gone)
    if (git) return await helper(guest, 'clone', git, run, gone)
    if (exec) await command(guest, exec, run, gone, o)
    if (exec && link?.authority) await helper(guest, 'forget', {}, run, gone)
    return ''
  } catch (error) {
    if (ended.signal.aborted && !o.signal.aborted)
      throw new AgentPodError({
        code: 'unavailable',
        reason: 'build.sandbox_ended',
        message: `${instructionOf(vertex, request)}: its sandbox stopped before it finished`,
        hint: 'try again; if it ran out of memory, run fewer jobs in parallel',
        details: { step: run.name },
        cause: error,
      })
    throw error
  }
}

function workOf(actions: readonly FileAction[], { sources }: VertexRun): object {
  const numbers = [...new Set(actions.flatMap(({ copy }) => (copy ? [copy.from] : [])))]
  return {
    sources: Object.fromEntries(numbers.map((one) => [one, sourcePath(one)])),
    roots: numbers.filter((one) => sources.get(one)?.isRoot),
    actions,
  }
}

/** Runs podfiles, and returns what it printed. */
async function helper(
  guest: Guest,
  operation: string,
  work: object,
  run: VertexRun,
  signal: AbortSignal,
): Promise<string> {
  const content = Readable.from([Buffer.from(JSON.stringify(work))])
  await guest.files.write(WORK_FILE, content, { user: 'root', signal })
  let output = ''
  let fault = ''
  const program = { command: `${PROGRAM}/podfiles`, args: [operation, WORK_FILE], env: {}, cwd: '/' }
  const events = guest.processes.start(
    { ...program, user: 'root', stdin: false, timeoutMs: HELPER_MS },
    { signal },
  )
  for await (const event of events) {
    if (event.kind === 'stdout') output = (output + event.data.toString()).slice(0, LONGEST_FAULT)
    if (event.kind === 'stderr') fault = (fault + event.data.toString()).slice(-LONGEST_FAULT)
    if (event.kind !== 'end') continue
    if (event.exit.exitCode === 0) return output.trim()
    const why = event.exit.oomKilled ? 'it ran out of memory' : fault.trim() || 'podfiles ended early'
    throw failed(run, why, 'failed_precondition', 'build.step_failed')
  }
  throw failed(run, 'the connection to the sandbox was lost', 'unavailable', 'build.sandbox_ended')
}

async function command(
  guest: Guest,
  exec: Exec,
  run: VertexRun,
  signal: AbortSignal,
  o: DockerfileJob,
): Promise<void> {
  const { request } = run
  const secretVariables = await prepare(guest, exec, run, signal)
  const [program = '', ...args] = exec.args
  const startedAt = performance.now()
  let exit: ProcessExit | undefined
  try {
    const events = guest.processes.start(
      {
        command: program,
        args,
        env: { ...envVariables(exec.env ?? []), ...secretVariables },
        cwd: exec.cwd,
        user: exec.user || 'root',
        stdin: false,
        timeoutMs: request.timeoutMs,
      },
      { signal },
    )
    for await (const event of events) {
      if (event.kind === 'stdout' || event.kind === 'stderr')
        await o.onEvent({ kind: 'output', name: run.name, data: masked(event.data, request) })
      if (event.kind === 'end') exit = event.exit
    }
  } catch (error) {
    if (isAgentPodError(error, 'deadline_exceeded')) throw late(run)
    throw withPlace(asAgentPodError(error), run.vertex, request)
  }
  if (!exit) throw failed(run, 'the connection to the sandbox was lost', 'unavailable', 'build.sandbox_ended')
  if (exit.exitCode === 0 && !exit.signal) {
    if (linksOf(exec).length > 0) await helper(guest, 'restore', { links: linksOf(exec) }, run, signal)
    return
  }
  if (performance.now() - startedAt >= request.timeoutMs) throw late(run)
  throw failed(run, exitText(exit), 'failed_precondition', 'build.step_failed')
}

const SECRETS = '/run/secrets'

interface SecretLink {
  readonly path: string
  readonly target: string
}

/**
 * A secret with a path of its own is a link to a temporary file system, which is removed after the command.
 */
function linksOf({ mounts = [] }: Exec): SecretLink[] {
  return mounts.flatMap((mount, at) =>
    mount.kind === 'secret' && !mount.path.startsWith('/run/')
      ? [{ path: mount.path, target: `${SECRETS}/.${at}` }]
      : [],
  )
}

/** Writes secrets, and gives caches to whom they belong. Returns the variables that are secrets. */
async function prepare(
  guest: Guest,
  exec: Exec,
  run: VertexRun,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const { request, cacheOwners } = run
  const own: object[] = []
  const links: SecretLink[] = []
  for (const [at, mount] of (exec.mounts ?? []).entries()) {
    const cache = cacheOwners.get(mount)
    if (cache) own.push({ path: mount.path, ...cache })
    if (mount.kind !== 'secret') continue
    const value = secretOf(mount, run)
    if (value === undefined) continue
    const path = mount.path.startsWith('/run/') ? mount.path : `${SECRETS}/.${at}`
    const content = Readable.from([Buffer.from(value)])
    await guest.files.write(path, content, { user: 'root', signal })
    own.push({ path, uid: mount.uid ?? 0, gid: mount.gid ?? 0, mode: mount.mode ?? 0o400 })
    if (path !== mount.path) links.push({ path: mount.path, target: path })
  }
  if (own.length > 0) await helper(guest, 'prepare', { own, links }, run, signal)
  const variables: Record<string, string> = {}
  for (const one of exec.secrets ?? []) {
    const value = secretOf(one, run)
    if (value !== undefined) variables[one.name] = value
  }
  return Object.keys(request.secrets).length === 0 ? {} : variables
}

function secretOf(
  {
    id = '',
    optional: isOptional,
  }: { readonly id?: string | undefined; readonly optional?: boolean | undefined },
  { request, vertex }: VertexRun,
): string | undefined {
  const value = request.secrets[id]
  if (value !== undefined || isOptional) return value
  throw missingSecret(id, vertex, request)
}

export function missingSecret(id: string, vertex: Vertex, request: DockerfileRequest): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'build.secret',
    message: `${instructionOf(vertex, request)} needs the secret ${JSON.stringify(id)}, and none was given`,
    hint: `--secret id=${id},src=FILE or --secret id=${id},env=VARIABLE gives it`,
  })
}

const SHORTEST_MASKED = 6

/** SECURITY: IM-08. A value that a command prints is not shown or stored. Parts of it are not recognised. */
function masked(data: Buffer, { secrets }: DockerfileRequest): Buffer {
  let text: string | undefined
  for (const value of Object.values(secrets)) {
    const known = value.trim()
    if (known.length < SHORTEST_MASKED || !data.includes(known)) continue
    text = (text ?? data.toString('latin1')).replaceAll(Buffer.from(known).toString('latin1'), '***')
  }
  return text === undefined ? data : Buffer.from(text, 'latin1')
}

/** `Dockerfile:12: RUN make`. */
export function instructionOf({ line, title }: Vertex, { name }: DockerfileRequest): string {
  const instruction = title.replace(/^\[[^\]]*\] /, '')
  return line > 0 ? `${name}:${line}: ${instruction}` : `${name}: ${instruction}`
}

function failed(
  { vertex, name, request }: VertexRun,
  why: string,
  code: AgentPodError['code'],
  reason: string,
): AgentPodError {
  return new AgentPodError({
    code,
    reason,
    message: `${instructionOf(vertex, request)} failed: ${why}`,
    ...(vertex.exec && {
      hint: '`agentpod build --debug` opens a shell in the sandbox of the failed step',
    }),
    details: {
      step: name,
      line: vertex.line,
      ...(vertex.exec && { command: vertex.exec.args.join(' ').slice(0, LONGEST_FAULT) }),
    },
  })
}

function late(run: VertexRun): AgentPodError {
  const why = `it did not finish within ${formatDuration(run.request.timeoutMs)}`
  return failed(run, why, 'deadline_exceeded', 'build.step_late')
}

function withPlace(error: AgentPodError, vertex: Vertex, request: DockerfileRequest): AgentPodError {
  const { code, reason, message, hint, details } = error
  if (code === 'canceled' || code === 'internal') return error
  return new AgentPodError({
    code,
    reason,
    message: `${instructionOf(vertex, request)}: ${message}`,
    hint,
    details: { ...details, line: vertex.line },
    cause: error,
  })
}
