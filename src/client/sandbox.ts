import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import type { EventView, SandboxView, StatsView } from '../api/schema/sandbox.ts'
import { basic, type ExecOptions, Process, startProcess } from './process.ts'
import type { Transport } from './transport.ts'

export interface FileInfo {
  readonly name: string
  readonly type: 'file' | 'directory' | 'symlink' | 'other'
  readonly path: string
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
    const answer = (await this.#transport.json(
      'POST',
      '/filesystem.Filesystem/Stat',
      { path },
      { headers: this.#as(user) },
    )) as {
      entry: { name: string; type?: string; path: string }
    }
    const types: Record<string, FileInfo['type']> = {
      FILE_TYPE_FILE: 'file',
      FILE_TYPE_DIRECTORY: 'directory',
      FILE_TYPE_SYMLINK: 'symlink',
    }
    return {
      name: answer.entry.name,
      path: answer.entry.path,
      type: types[answer.entry.type ?? ''] ?? 'other',
    }
  }

  async makeDirectory(path: string, user?: string): Promise<void> {
    await this.#transport.json(
      'POST',
      '/filesystem.Filesystem/MakeDir',
      { path },
      { headers: this.#as(user) },
    )
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

  #as(user: string | undefined): Record<string, string> {
    return user === undefined ? { ...this.#headers } : { ...this.#headers, authorization: basic(user) }
  }
}

function query(fields: Record<string, string | undefined>): string {
  const params = new URLSearchParams()
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) params.set(key, value)
  return params.toString()
}
