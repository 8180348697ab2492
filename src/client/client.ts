/** The client of an AgentPod server. */

import type { CreatedKeyView, CreateKey, KeyView } from '../api/schema/key.ts'
import type { ProviderView } from '../api/schema/provider.ts'
import type { PreviewView, SandboxEventView, SandboxView } from '../api/schema/sandbox.ts'
import type { CheckView, ServerView, TcpAddressView } from '../api/schema/server.ts'
import type { AuditEntryView } from '../api/schema/usage.ts'
import type { Scope } from '../core/key.ts'
import type { Kit } from '../core/recipe.ts'
import { Builds } from './builds.ts'
import { type PlaceOptions, placeOf } from './default-place.ts'
import { Runs } from './runs.ts'
import { type CreateOptions, createOn, getOn, type ListOptions, listOn, type Sandbox } from './sandbox.ts'
import { Secrets } from './secrets.ts'
import { Snapshots } from './snapshots.ts'
import { connectError, Transport, type TransportOptions } from './transport.ts'

export interface PrepareOptions {
  /** What the debian base has besides the system; `plain` when left out. */
  readonly kit?: Kit | undefined
  /** Of the base `image`: its reference. */
  readonly image?: string | undefined
  /** Where it is made ready; the default provider when left out. */
  readonly provider?: string | undefined
}

export class AgentPod {
  readonly #transport: Transport
  readonly snapshots: Snapshots
  readonly secrets: Secrets
  readonly builds: Builds
  readonly runs: Runs

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options)
    this.snapshots = new Snapshots(this.#transport)
    this.secrets = new Secrets(this.#transport)
    this.builds = new Builds(this.#transport)
    this.runs = new Runs(this.#transport)
  }

  /** The server that the options or the environment name; on this machine, the one of the usual place. */
  static at(o: PlaceOptions = {}): AgentPod {
    return new AgentPod(placeOf(o))
  }

  create(o: CreateOptions = {}): Promise<Sandbox> {
    return createOn(this.#transport, o)
  }

  /** By id, or by the name of a living one. */
  get(ref: string): Promise<Sandbox> {
    return getOn(this.#transport, ref)
  }

  list(o: ListOptions = {}): Promise<SandboxView[]> {
    return listOn(this.#transport, o)
  }

  /** Makes a base ready; the first time that may take a minute, told line by line. */
  async prepare(base: string, onProgress: (line: string) => void, o: PrepareOptions = {}): Promise<void> {
    const query = new URLSearchParams({
      kit: o.kit ?? 'plain',
      ...(o.image && { image: o.image }),
      ...(o.provider && { provider: o.provider }),
    })
    const response = await this.#transport.open({
      method: 'POST',
      path: `/v1/bases/${encodeURIComponent(base)}?${query}`,
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

  /** Who makes sandboxes there, and what each can do. */
  async providers(): Promise<ProviderView[]> {
    return (await this.#transport.json('GET', '/v1/providers')) as ProviderView[]
  }

  /** What a provider lacks, and what to do about it. */
  async checkProvider(name: string): Promise<CheckView[]> {
    const path = `/v1/providers/${encodeURIComponent(name)}/checks`
    return (await this.#transport.json('GET', path)) as CheckView[]
  }

  async checks(): Promise<CheckView[]> {
    return (await this.#transport.json('GET', '/v1/server/checks')) as CheckView[]
  }

  /** Opens the server's loopback TCP listener where it is not open yet; answers where it is. */
  async listen(port = 0): Promise<TcpAddressView> {
    return (await this.#transport.json('POST', '/v1/server/listen', { port })) as TcpAddressView
  }

  /** The address of a port for a browser; `openUrl` lets one in, once, where the port is private. */
  async preview(ref: string, port: number): Promise<PreviewView> {
    return (await this.#transport.json(
      'POST',
      `/v1/sandboxes/${encodeURIComponent(ref)}/ports/${port}`,
    )) as PreviewView
  }

  async createKey(
    o: { name?: string; scope?: Scope; ttlMs?: number | undefined; network?: CreateKey['network'] } = {},
  ): Promise<CreatedKeyView> {
    return (await this.#transport.json('POST', '/v1/keys', o)) as CreatedKeyView
  }

  async keys(): Promise<KeyView[]> {
    return (await this.#transport.json('GET', '/v1/keys')) as KeyView[]
  }

  async revokeKey(id: string): Promise<KeyView> {
    return (await this.#transport.json('DELETE', `/v1/keys/${encodeURIComponent(id)}`)) as KeyView
  }

  /** Who asked for what, oldest first; at most 1,000 after `after`. For admins. */
  async audit(after = 0): Promise<AuditEntryView[]> {
    return (await this.#transport.json('GET', `/v1/audit?after=${after}`)) as AuditEntryView[]
  }

  /** What the way out decided for every sandbox, oldest first; at most 1,000 after `after`. For admins. */
  async networkAudit(after = 0): Promise<SandboxEventView[]> {
    return (await this.#transport.json('GET', `/v1/audit/network?after=${after}`)) as SandboxEventView[]
  }

  async stopServer(): Promise<void> {
    await this.#transport.json('POST', '/v1/server/stop')
  }

  /** Destroys every sandbox and every snapshot, removes everything kept for later ones, and stops the server. */
  async clear(): Promise<void> {
    await this.#transport.json('POST', '/v1/server/clear')
  }

  /** Closes idle connections. */
  close(): void {
    this.#transport.close()
  }
}
