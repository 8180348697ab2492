import { mkdir } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import type { ExplainedView, NetworkChangeBody, NetworkView } from '../api/schema/network.ts'
import type {
  ChangesView,
  CreateSandbox,
  EventView,
  ForkedView,
  ForkSandbox,
  PreviewView,
  SandboxView,
  StatsView,
} from '../api/schema/sandbox.ts'
import { AgentPodError } from '../core/error.ts'
import { listFiles } from '../sync/project-files.ts'
import { packFiles } from '../sync/tar.ts'
import { type Extracted, extract } from '../sync/untar.ts'
import { basicAuthorization } from '../util/basic-authorization.ts'
import { type PlaceOptions, placeOf } from './default-place.ts'
import { type FollowOptions, followEvents } from './follow.ts'
import { type ExecOptions, Process, startProcess } from './process.ts'
import type { Snapshot, SnapshotOptions } from './snapshots.ts'
import { connectError, readText, Transport } from './transport.ts'
import { type FileChange, type WatchOptions, watch } from './watch.ts'

export type CreateOptions = CreateSandbox & {
  /** Two requests with the same key create one sandbox. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Settings of a fork that differ from the original. With several forks, `name` gets a number as suffix. */
export type ForkOptions = ForkSandbox

/** The record of a sandbox on the server. */
export type SandboxInfo = SandboxView

export interface PauseOptions {
  /** Write the memory to disk. Needs a provider whose level `pause` is `memory`. */
  readonly toDisk?: boolean
}

export interface WakeOptions {
  /** The time to live from now; by default the full time again. */
  readonly ttlMs?: number | undefined
}

export interface ListOptions {
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Include ended sandboxes. */
  readonly all?: boolean | undefined
}

export interface FileInfo {
  readonly name: string
  readonly type: 'file' | 'directory' | 'symlink' | 'other'
  readonly path: string
  readonly sizeBytes: number
}

/** A process that the sandbox knows, running or ended. */
export interface ProcessInfo {
  readonly pid: number
  readonly tag: string | undefined
  readonly command: readonly string[]
  readonly endedAt: string | undefined
  readonly exitCode: number | undefined
}

/** A sandbox on a server. */
export class Sandbox {
  readonly #transport: Transport
  readonly #headers: Readonly<Record<string, string>>
  readonly info: SandboxView

  constructor(transport: Transport, info: SandboxView) {
    this.#transport = transport
    this.info = info
    this.#headers = { 'agentpod-sandbox': info.id }
  }

  /** Creates a sandbox on the server named by the options or the environment. */
  static create(o: CreateOptions & PlaceOptions = {}): Promise<Sandbox> {
    const { socket, url, key, ...options } = o
    return createOn(new Transport(placeOf({ socket, url, key })), options)
  }

  /** Finds a sandbox by its id, or by the name of one that has not ended. */
  static connect(ref: string, o: PlaceOptions = {}): Promise<Sandbox> {
    return getOn(new Transport(placeOf(o)), ref)
  }

  static list(o: ListOptions & PlaceOptions = {}): Promise<SandboxView[]> {
    const { socket, url, key, ...options } = o
    return listOn(new Transport(placeOf({ socket, url, key })), options)
  }

  get id(): string {
    return this.info.id
  }

  /** Starts a command with its arguments immediately, without a shell. */
  exec(command: string, o: ExecOptions = {}): Process {
    return startProcess(this.#transport, this.#headers, { ...o, command })
  }

  /**
   * Starts a background command and resolves when it runs. The sandbox keeps its output for `wait` and
   * `output`.
   */
  async spawn(command: string, o: ExecOptions = {}): Promise<Process> {
    const process = this.exec(command, o)
    await process.pid
    await process.release()
    return process
  }

  /** Follows a process from the first byte of output that was kept. */
  attach(pid: number, o: ExecOptions = {}): Process {
    return new Process({ transport: this.#transport, headers: this.#headers, selector: { pid }, options: o })
  }

  async processes(): Promise<ProcessInfo[]> {
    const list = (await this.#transport.json('GET', '/agentpod/processes', undefined, {
      headers: this.#headers,
    })) as Record<string, unknown>[]
    return list.map((entry) => {
      const config = entry['config'] as { cmd?: string; args?: string[] } | undefined
      return {
        pid: Number(entry['pid']),
        tag: entry['tag'] as string | undefined,
        command: [config?.cmd ?? '', ...(config?.args ?? [])],
        endedAt: entry['endedAt'] as string | undefined,
        exitCode: entry['endedAt'] === undefined ? undefined : Number(entry['exitCode'] ?? 0),
      }
    })
  }

  async stat(path: string, user?: string): Promise<FileInfo> {
    const answer = (await this.#files('Stat', { path }, user)) as { entry: Entry }
    return fileInfo(answer.entry)
  }

  /** Lists a directory, down to `depth` levels. */
  async list(path: string, o: { depth?: number; user?: string | undefined } = {}): Promise<FileInfo[]> {
    const answer = (await this.#files('ListDir', { path, depth: o.depth ?? 1 }, o.user)) as {
      entries?: Entry[]
    }
    return (answer.entries ?? []).map(fileInfo)
  }

  /** Removes a file, or a directory with all its contents. */
  async remove(path: string, user?: string): Promise<void> {
    await this.#files('Remove', { path }, user)
  }

  async move(from: string, to: string, user?: string): Promise<void> {
    await this.#files('Move', { source: from, destination: to }, user)
  }

  /** Yields changes in a directory, starting with the first `for await`. */
  watch(path: string, o: WatchOptions = {}): AsyncGenerator<FileChange> {
    return watch(this.#transport, this.#headers, path, o)
  }

  async makeDirectory(path: string, user?: string): Promise<void> {
    await this.#files('MakeDir', { path }, user)
  }

  /** Reads a file. */
  readFile(
    path: string,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<IncomingMessage> {
    return this.#transport.open({
      method: 'GET',
      path: `/files?${query({ path })}`,
      headers: this.#as(o.user),
      signal: o.signal,
    })
  }

  /** Writes a file and creates its directories. */
  async writeFile(
    path: string,
    content: Buffer | Readable,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<void> {
    const response = await this.#transport.open({
      method: 'POST',
      path: `/files?${query({ path })}`,
      headers: { ...this.#as(o.user), 'content-type': 'application/octet-stream' },
      body: content,
      signal: o.signal,
    })
    response.resume()
  }

  async readText(path: string, o: { user?: string | undefined; signal?: AbortSignal } = {}): Promise<string> {
    return readText(await this.readFile(path, o))
  }

  /** Copies a directory from this machine into the sandbox, with modes and links. */
  async upload(
    directory: string,
    path: string,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<void> {
    await this.unpack(path, packFiles(directory, await listFiles(directory)), o)
  }

  /** Copies a directory from the sandbox to this machine; returns what was left out and why. */
  async download(
    path: string,
    directory: string,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<Extracted> {
    await mkdir(directory, { recursive: true })
    return extract(await this.pack(path, o), directory)
  }

  /** Unpacks a tar stream into a directory of the sandbox, as the user. */
  async unpack(
    path: string,
    tar: Readable | Buffer,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<void> {
    const response = await this.#transport.open({
      method: 'POST',
      path: `/agentpod/tar?${query({ path, username: o.user })}`,
      headers: { ...this.#headers, 'content-type': 'application/x-tar' },
      body: tar,
      signal: o.signal,
    })
    response.resume()
  }

  /**
   * A tar stream of a directory's contents or of a file. SECURITY: untrusted; check every name before use.
   */
  pack(path: string, o: { user?: string | undefined; signal?: AbortSignal } = {}): Promise<IncomingMessage> {
    return this.#transport.open({
      method: 'GET',
      path: `/agentpod/tar?${query({ path, username: o.user })}`,
      headers: this.#headers,
      signal: o.signal,
    })
  }

  /**
   * The address of a port for a browser or an HTTP client. If the port is private, `openUrl` lets one browser
   * in, once.
   */
  async port(port: number): Promise<PreviewView> {
    return (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/ports/${port}`)) as PreviewView
  }

  /** Opens a byte stream to a port inside the sandbox. */
  dial(port: number, signal?: AbortSignal): Promise<Duplex> {
    return this.#transport.upgrade(`/agentpod/tunnel?port=${port}`, this.#headers, signal)
  }

  /**
   * Call it when the project's files are in place: starts the services that need them, and runs the start
   * command.
   */
  async begin(): Promise<void> {
    await this.#transport.json('POST', `/v1/sandboxes/${this.id}/begin`)
  }

  async stats(): Promise<StatsView> {
    return (await this.#transport.json('GET', `/v1/sandboxes/${this.id}/stats`)) as StatsView
  }

  /**
   * What may have changed below a directory since the sandbox was created from a snapshot, found without
   * reading the files that did not change. `paths` is null if that is not known.
   */
  async changes(directory: string): Promise<ChangesView> {
    return (await this.#transport.json(
      'GET',
      `/v1/sandboxes/${this.id}/changes?${query({ path: directory })}`,
    )) as ChangesView
  }

  /** At most 1,000 events, oldest first, optionally of one type. */
  async events(after = 0, type?: string): Promise<EventView[]> {
    return (await this.#transport.json(
      'GET',
      `/v1/sandboxes/${this.id}/events?${query({ after: String(after), type })}`,
    )) as EventView[]
  }

  /** Events after `o.after`, live until the sandbox has ended. */
  follow(o: FollowOptions = {}): AsyncGenerator<EventView> {
    return followEvents(this.#transport, this.id, o)
  }

  /** The network policy and the traffic so far. */
  async network(): Promise<NetworkView> {
    return (await this.#transport.json('GET', `/v1/sandboxes/${this.id}/network`)) as NetworkView
  }

  /** Changes the network policy immediately; fields that are left out keep their value. */
  async changeNetwork(change: NetworkChangeBody): Promise<NetworkView> {
    return (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/network`, change)) as NetworkView
  }

  /** Explains which rule decides about an address. */
  async explain(url: string, method?: string): Promise<ExplainedView> {
    const asked = { url, ...(method !== undefined && { method }) }
    return (await this.#transport.json(
      'POST',
      `/v1/sandboxes/${this.id}/network/explain`,
      asked,
    )) as ExplainedView
  }

  /** Sets the time to live, counted from now. */
  extend(ttlMs: number): Promise<Sandbox> {
    return this.#verb('extend', { ttlMs })
  }

  /**
   * Freezes the sandbox with its memory. Streams stay open but silent, and the time to live does not count. A
   * second call succeeds too. `unsupported` if the server's machine cannot freeze processes; `stop` keeps the
   * files there. With `toDisk`, its memory is written to disk and its processes end; `resume` continues them,
   * also after a reboot, and streams continue at their offsets. If the memory cannot be saved, the sandbox
   * continues.
   */
  pause(o: PauseOptions = {}): Promise<Sandbox> {
    return this.#verb('pause', o)
  }

  /** Resumes after a pause. A running sandbox is not changed. */
  resume(o: WakeOptions = {}): Promise<Sandbox> {
    return this.#verb('resume', o)
  }

  /** Ends all processes and keeps the files. Streams are cut. A second call succeeds too. */
  stop(): Promise<Sandbox> {
    return this.#verb('stop')
  }

  /** Starts a stopped sandbox with its files. A running sandbox is not changed. */
  start(o: WakeOptions = {}): Promise<Sandbox> {
    return this.#verb('start', o)
  }

  /**
   * Saves the files of this moment, and with `memory` the running processes. `Sandbox.create({ snapshot })`
   * starts with them.
   */
  async snapshot(o: SnapshotOptions = {}): Promise<Snapshot> {
    return (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/snapshots`, o)) as Snapshot
  }

  /**
   * Makes copies with the files of one moment and without processes. If some fail, the others keep running:
   * the error's details have their ids and every failure.
   */
  async fork(o: ForkOptions = {}): Promise<Sandbox[]> {
    const forked = (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/fork`, o)) as ForkedView[]
    const made = forked.flatMap((one) =>
      'sandbox' in one ? [new Sandbox(this.#transport, one.sandbox)] : [],
    )
    if (made.length === forked.length) return made
    throw someFailed(forked, made)
  }

  async #verb(verb: string, body?: object): Promise<Sandbox> {
    const path = `/v1/sandboxes/${this.id}/${verb}`
    const info = await this.#transport.json('POST', path, body, { isRepeatable: true })
    return new Sandbox(this.#transport, info as SandboxView)
  }

  /** Destroys the sandbox; resolves when it is completely removed. A second call succeeds too. */
  async destroy(): Promise<void> {
    await this.#transport.json('DELETE', `/v1/sandboxes/${this.id}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  #files(method: string, body: object, user: string | undefined): Promise<unknown> {
    return this.#transport.json('POST', `/filesystem.Filesystem/${method}`, body, { headers: this.#as(user) })
  }

  #as(user: string | undefined): Record<string, string> {
    return user === undefined
      ? { ...this.#headers }
      : { ...this.#headers, authorization: basicAuthorization(user) }
  }
}

function someFailed(forked: readonly ForkedView[], made: readonly Sandbox[]): AgentPodError {
  const errors = forked.flatMap((one) => ('error' in one ? [one.error] : []))
  const first = connectError({ ...errors[0] }, 'a fork failed')
  return new AgentPodError({
    code: first.code,
    reason: 'fork.partial',
    message: `${errors.length} of ${forked.length} forks failed: ${first.message}`,
    hint: first.hint,
    details: { made: made.map(({ id }) => id), errors },
    cause: first,
  })
}

interface Entry {
  readonly name: string
  readonly type?: string
  readonly path: string
  readonly size?: string
}

const FILE_TYPES: Record<string, FileInfo['type']> = {
  FILE_TYPE_FILE: 'file',
  FILE_TYPE_DIRECTORY: 'directory',
  FILE_TYPE_SYMLINK: 'symlink',
}

function fileInfo({ name, path, type, size }: Entry): FileInfo {
  return { name, path, type: FILE_TYPES[type ?? ''] ?? 'other', sizeBytes: Number(size ?? 0) }
}

export async function createOn(transport: Transport, o: CreateOptions): Promise<Sandbox> {
  const { idempotencyKey, signal, ...body } = o
  const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
  return new Sandbox(
    transport,
    (await transport.json('POST', '/v1/sandboxes', body, { headers, signal })) as SandboxView,
  )
}

export async function getOn(transport: Transport, ref: string): Promise<Sandbox> {
  return new Sandbox(
    transport,
    (await transport.json('GET', `/v1/sandboxes/${encodeURIComponent(ref)}`)) as SandboxView,
  )
}

export async function listOn(transport: Transport, o: ListOptions): Promise<SandboxView[]> {
  const fields = new URLSearchParams()
  for (const [key, value] of Object.entries(o.labels ?? {})) fields.append('label', `${key}=${value}`)
  if (o.all) fields.set('all', 'true')
  return (await transport.list('/v1/sandboxes', fields)) as SandboxView[]
}

function query(fields: Record<string, string | undefined>): string {
  const params = new URLSearchParams()
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) params.set(key, value)
  return params.toString()
}
