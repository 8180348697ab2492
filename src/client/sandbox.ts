import { mkdir } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import type { ExplainedView, NetworkChange, NetworkView } from '../api/schema/network.ts'
import type {
  CreateSandbox,
  EventView,
  ForkedView,
  ForkSandbox,
  PreviewView,
  SandboxView,
  StatsView,
} from '../api/schema/sandbox.ts'
import { AgentPodError } from '../core/error.ts'
import { listFiles } from '../sync/project.ts'
import { packFiles } from '../sync/tar.ts'
import { type Extracted, extract } from '../sync/untar.ts'
import { type PlaceOptions, placeOf } from './default-place.ts'
import { type FollowOptions, followEvents } from './follow.ts'
import { basic, type ExecOptions, Process, startProcess } from './process.ts'
import type { Snapshot, SnapshotOptions } from './snapshots.ts'
import { connectError, readText, Transport } from './transport.ts'
import { type FileChange, type WatchOptions, watch } from './watch.ts'

export type CreateOptions = CreateSandbox & {
  /** Two creates with one key are one create. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** What a fork differs in from the sandbox it is a copy of. `name` gets a number behind it where there are several. */
export type ForkOptions = ForkSandbox

/** Its record on the server. */
export type SandboxInfo = SandboxView

export interface WakeOptions {
  /** How long it lives from now; its whole time to live again when left out. */
  readonly ttlMs?: number | undefined
}

export interface ListOptions {
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Ended ones too. */
  readonly all?: boolean | undefined
}

export interface FileInfo {
  readonly name: string
  readonly type: 'file' | 'directory' | 'symlink' | 'other'
  readonly path: string
  readonly sizeBytes: number
}

/** A remembered process, running or ended. */
export interface ProcessInfo {
  readonly pid: number
  readonly tag: string | undefined
  readonly command: readonly string[]
  readonly endedAt: string | undefined
  readonly exitCode: number | undefined
}

/** One sandbox, by reference to the server that holds it. */
export class Sandbox {
  readonly #transport: Transport
  readonly #headers: Readonly<Record<string, string>>
  readonly info: SandboxView

  constructor(transport: Transport, info: SandboxView) {
    this.#transport = transport
    this.info = info
    this.#headers = { 'agentpod-sandbox': info.id }
  }

  /** A new sandbox on the server that the options or the environment name. */
  static create(o: CreateOptions & PlaceOptions = {}): Promise<Sandbox> {
    const { socket, url, key, ...options } = o
    return createOn(new Transport(placeOf({ socket, url, key })), options)
  }

  /** A living sandbox by its id or name. */
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

  /** A command with its arguments; nothing passes through a shell. It starts at once. */
  exec(command: string, o: ExecOptions = {}): Process {
    return startProcess(this.#transport, this.#headers, { ...o, command })
  }

  /** Starts a command that runs on by itself, and resolves when it runs. Its output is kept inside: `wait` and `output` read it later. */
  async spawn(command: string, o: ExecOptions = {}): Promise<Process> {
    const process = this.exec(command, o)
    await process.pid
    await process.release()
    return process
  }

  /** Follows a process from its first kept byte. */
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

  /** What is in a directory, down to `depth` levels. */
  async list(path: string, o: { depth?: number; user?: string | undefined } = {}): Promise<FileInfo[]> {
    const answer = (await this.#files('ListDir', { path, depth: o.depth ?? 1 }, o.user)) as {
      entries?: Entry[]
    }
    return (answer.entries ?? []).map(fileInfo)
  }

  /** Removes a file or a directory with everything in it. */
  async remove(path: string, user?: string): Promise<void> {
    await this.#files('Remove', { path }, user)
  }

  async move(from: string, to: string, user?: string): Promise<void> {
    await this.#files('Move', { source: from, destination: to }, user)
  }

  /** Changes in a directory, from the first `for await` on. */
  watch(path: string, o: WatchOptions = {}): AsyncGenerator<FileChange> {
    return watch(this.#transport, this.#headers, path, o)
  }

  async makeDirectory(path: string, user?: string): Promise<void> {
    await this.#files('MakeDir', { path }, user)
  }

  /** The bytes of one file. */
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

  /** Writes one file, making its directories. */
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

  /** Copies a directory of this machine in, with modes and links as they are. */
  async upload(
    directory: string,
    path: string,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<void> {
    await this.unpack(path, packFiles(directory, await listFiles(directory)), o)
  }

  /** Copies a directory of the sandbox into one of this machine; says what was left out and why. */
  async download(
    path: string,
    directory: string,
    o: { user?: string | undefined; signal?: AbortSignal } = {},
  ): Promise<Extracted> {
    await mkdir(directory, { recursive: true })
    return extract(await this.pack(path, o), directory)
  }

  /** Unpacks a tar stream under a directory, inside the sandbox, as the user. */
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

  /** A tar stream of a directory's contents, or of one file. Hostile bytes: list and check before trusting a name. */
  pack(path: string, o: { user?: string | undefined; signal?: AbortSignal } = {}): Promise<IncomingMessage> {
    return this.#transport.open({
      method: 'GET',
      path: `/agentpod/tar?${query({ path, username: o.user })}`,
      headers: this.#headers,
      signal: o.signal,
    })
  }

  /** The address of a port for a browser or a client of HTTP; `openUrl` lets one in, once, where the port is private. */
  async port(port: number): Promise<PreviewView> {
    return (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/ports/${port}`)) as PreviewView
  }

  /** A byte stream to a port inside. */
  dial(port: number, signal?: AbortSignal): Promise<Duplex> {
    return this.#transport.upgrade(`/agentpod/tunnel?port=${port}`, this.#headers, signal)
  }

  /** For when the project is in place: starts the services that need it, and runs the command of every start. */
  async begin(): Promise<void> {
    await this.#transport.json('POST', `/v1/sandboxes/${this.id}/begin`)
  }

  async stats(): Promise<StatsView> {
    return (await this.#transport.json('GET', `/v1/sandboxes/${this.id}/stats`)) as StatsView
  }

  /** At most 1,000, oldest first; of one type, where it is named. */
  async events(after = 0, type?: string): Promise<EventView[]> {
    return (await this.#transport.json(
      'GET',
      `/v1/sandboxes/${this.id}/events?${query({ after: String(after), type })}`,
    )) as EventView[]
  }

  /** The events after `o.after` and those that come, until it has ended. */
  follow(o: FollowOptions = {}): AsyncGenerator<EventView> {
    return followEvents(this.#transport, this.id, o)
  }

  /** What it may reach, and what it has used. */
  async network(): Promise<NetworkView> {
    return (await this.#transport.json('GET', `/v1/sandboxes/${this.id}/network`)) as NetworkView
  }

  /** Changes what it may reach, at once; what is left out stays. */
  async changeNetwork(change: NetworkChange): Promise<NetworkView> {
    return (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/network`, change)) as NetworkView
  }

  /** Which rule decides about an address, and why. */
  async explain(url: string, method?: string): Promise<ExplainedView> {
    const asked = { url, ...(method !== undefined && { method }) }
    return (await this.#transport.json(
      'POST',
      `/v1/sandboxes/${this.id}/network/explain`,
      asked,
    )) as ExplainedView
  }

  /** Gives it this long from now. */
  extend(ttlMs: number): Promise<Sandbox> {
    return this.#verb('extend', { ttlMs })
  }

  /**
   * Freezes it with its memory. Streams stay open and are silent, and its time does not count. A second call succeeds too. `unsupported`
   * where the server's machine has no freezer: `stop` keeps the files there.
   */
  pause(): Promise<Sandbox> {
    return this.#verb('pause')
  }

  /** Lets it run on after a pause. A sandbox that runs is left as it is. */
  resume(o: WakeOptions = {}): Promise<Sandbox> {
    return this.#verb('resume', o)
  }

  /** Ends its processes and keeps its files. Streams are cut. A second call succeeds too. */
  stop(): Promise<Sandbox> {
    return this.#verb('stop')
  }

  /** Runs it again on its files after a stop. A sandbox that runs is left as it is. */
  start(o: WakeOptions = {}): Promise<Sandbox> {
    return this.#verb('start', o)
  }

  /** Its files as they are at this moment; `Sandbox.create({ snapshot })` begins with them. What is in memory is not kept. */
  async snapshot(o: SnapshotOptions = {}): Promise<Snapshot> {
    return (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/snapshots`, o)) as Snapshot
  }

  /**
   * Copies of it, all with the files of one moment and none of its processes. When some fail, the others live on: the error's details
   * have the ids that were made, and every failure.
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
    const info = await this.#transport.json('POST', `/v1/sandboxes/${this.id}/${verb}`, body)
    return new Sandbox(this.#transport, info as SandboxView)
  }

  /** Ends it; resolves when nothing of it is left. A second call succeeds too. */
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
    return user === undefined ? { ...this.#headers } : { ...this.#headers, authorization: basic(user) }
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
  return (await transport.json('GET', `/v1/sandboxes?${fields}`)) as SandboxView[]
}

function query(fields: Record<string, string | undefined>): string {
  const params = new URLSearchParams()
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) params.set(key, value)
  return params.toString()
}
