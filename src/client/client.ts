/** The client of an AgentPod server. */
import type { CreateSandbox, SandboxView } from '../api/schema/sandbox.ts'
import type { CheckView, ServerView } from '../api/schema/server.ts'
import { Sandbox } from './sandbox.ts'
import { connectError, Transport, type TransportOptions } from './transport.ts'

export type CreateOptions = CreateSandbox & {
  /** Two creates with one key are one create. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export class AgentPod {
  readonly #transport: Transport

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options)
  }

  async create(o: CreateOptions = {}): Promise<Sandbox> {
    const { idempotencyKey, signal, ...body } = o
    const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
    const view = await this.#transport.json('POST', '/v1/sandboxes', body, { headers, signal })
    return new Sandbox(this.#transport, view as SandboxView)
  }

  /** By id, or by the name of a living one. */
  async get(ref: string): Promise<Sandbox> {
    return new Sandbox(
      this.#transport,
      (await this.#transport.json('GET', `/v1/sandboxes/${encodeURIComponent(ref)}`)) as SandboxView,
    )
  }

  async list(o: { labels?: Readonly<Record<string, string>>; all?: boolean } = {}): Promise<SandboxView[]> {
    const query = new URLSearchParams()
    for (const [key, value] of Object.entries(o.labels ?? {})) query.append('label', `${key}=${value}`)
    if (o.all) query.set('all', 'true')
    return (await this.#transport.json('GET', `/v1/sandboxes?${query}`)) as SandboxView[]
  }

  /** Makes a base ready; the first time that may take a minute, told line by line. */
  async prepare(base: string, onProgress: (line: string) => void): Promise<void> {
    const response = await this.#transport.open({
      method: 'POST',
      path: `/v1/bases/${encodeURIComponent(base)}`,
    })
    let rest = ''
    response.setEncoding('utf8')
    for await (const text of response as AsyncIterable<string>) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const message = JSON.parse(line) as { progress?: string; error?: Record<string, unknown> }
        if (message.error) throw connectError(message.error, 'the base could not be made')
        if (message.progress) onProgress(message.progress)
      }
    }
  }

  async server(): Promise<ServerView> {
    return (await this.#transport.json('GET', '/v1/server')) as ServerView
  }

  async checks(): Promise<CheckView[]> {
    return (await this.#transport.json('GET', '/v1/server/checks')) as CheckView[]
  }

  async stopServer(): Promise<void> {
    await this.#transport.json('POST', '/v1/server/stop')
  }

  /** Destroys every sandbox, removes everything kept for later ones, and stops the server. */
  async clear(): Promise<void> {
    await this.#transport.json('POST', '/v1/server/clear')
  }

  /** Closes idle connections. */
  close(): void {
    this.#transport.close()
  }
}
