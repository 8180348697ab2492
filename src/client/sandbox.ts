import { mkdir } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import type { CreateSandbox, EventView, SandboxView, StatsView } from '../api/schema/sandbox.ts'
import { listFiles } from '../sync/project.ts'
import { packFiles } from '../sync/tar.ts'
import { type Extracted, extract } from '../sync/untar.ts'
import { type PlaceOptions, placeOf } from './default-place.ts'
import { basic, type ExecOptions, Process, startProcess } from './process.ts'
import { readText, Transport } from './transport.ts'
import { type FileChange, type WatchOptions, watch } from './watch.ts'

export type CreateOptions = CreateSandbox & {
  /** Two creates with one key are one create. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
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

  /** A command with its arguments; nothing passes through a shell. It starts when its output is read or waited for. */
  exec(command: string, o: ExecOptions = {}): Process {
    return startProcess(this.#transport, this.#headers, { ...o, command })
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

  /** A byte stream to a port inside. */
  dial(port: number, signal?: AbortSignal): Promise<Duplex> {
    return this.#transport.upgrade(`/agentpod/tunnel?port=${port}`, this.#headers, signal)
  }

  async stats(): Promise<StatsView> {
    return (await this.#transport.json('GET', `/v1/sandboxes/${this.id}/stats`)) as StatsView
  }

  async events(after = 0): Promise<EventView[]> {
    return (await this.#transport.json(
      'GET',
      `/v1/sandboxes/${this.id}/events?after=${after}`,
    )) as EventView[]
  }

  /** Gives it this long from now. */
  async extend(ttlMs: number): Promise<Sandbox> {
    return new Sandbox(
      this.#transport,
      (await this.#transport.json('POST', `/v1/sandboxes/${this.id}/extend`, { ttlMs })) as SandboxView,
    )
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
