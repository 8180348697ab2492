/** The client of an AgentPod server. */

import type { CreatedKeyView, CreateKey, KeyView } from '../api/schema/key.ts'
import type { ProviderView } from '../api/schema/provider.ts'
import type { PreviewView, SandboxEventView, SandboxView } from '../api/schema/sandbox.ts'
import type { CheckView, ServerView, TcpAddressView } from '../api/schema/server.ts'
import type { AuditEntryView } from '../api/schema/usage.ts'
import type { Isolation } from '../core/capability.ts'
import type { Scope } from '../core/key.ts'
import type { Kit } from '../core/recipe.ts'
import { Builds } from './builds.ts'
import { type PlaceOptions, placeOf } from './default-place.ts'
import { Groups } from './groups.ts'
import { ImageClient } from './images.ts'
import { Runs } from './runs.ts'
import { type CreateOptions, createOn, getOn, type ListOptions, listOn, type Sandbox } from './sandbox.ts'
import { Secrets } from './secrets.ts'
import { Snapshots } from './snapshots.ts'
import { connectError, Transport, type TransportOptions } from './transport.ts'
import { Volumes } from './volumes.ts'

export interface PrepareOptions {
  /** What the debian base contains besides the system; `plain` when left out. */
  readonly kit?: Kit | undefined
  /** For the base `image`: its reference. */
  readonly image?: string | undefined
  /** The provider that prepares it; the default one when left out. */
  readonly provider?: string | undefined
}

export class AgentPod {
  readonly #transport: Transport
  readonly snapshots: Snapshots
  readonly volumes: Volumes
  readonly groups: Groups
  readonly secrets: Secrets
  readonly builds: Builds
  readonly images: ImageClient
  readonly runs: Runs

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options)
    this.snapshots = new Snapshots(this.#transport)
    this.volumes = new Volumes(this.#transport)
    this.groups = new Groups(this.#transport)
    this.secrets = new Secrets(this.#transport)
    this.builds = new Builds(this.#transport)
    this.images = new ImageClient(this.#transport)
    this.runs = new Runs(this.#transport)
  }

  /** The server named by the options or the environment; by default the one of this user on this machine. */
  static at(o: PlaceOptions = {}): AgentPod {
    return new AgentPod(placeOf(o))
  }

  create(o: CreateOptions = {}): Promise<Sandbox> {
    return createOn(this.#transport, o)
  }

  /** By id, or by the name of a sandbox that has not ended. */
  get(ref: string): Promise<Sandbox> {
    return getOn(this.#transport, ref)
  }

  list(o: ListOptions = {}): Promise<SandboxView[]> {
    return listOn(this.#transport, o)
  }

  /** Prepares a base. The first time may take a minute; `onProgress` reports it line by line. */
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
        if (message.error) throw connectError(message.error, 'the base could not be prepared')
        if (message.progress) onProgress(message.progress)
      }
    }
  }

  async server(): Promise<ServerView> {
    return (await this.#transport.json('GET', '/v1/server')) as ServerView
  }

  /** The providers of the server and their capabilities. */
  async providers(): Promise<ProviderView[]> {
    return (await this.#transport.json('GET', '/v1/providers')) as ProviderView[]
  }

  /** Checks of a provider, each with a hint if it fails. */
  async checkProvider(name: string): Promise<CheckView[]> {
    const path = `/v1/providers/${encodeURIComponent(name)}/checks`
    return (await this.#transport.json('GET', path)) as CheckView[]
  }

  async checks(): Promise<CheckView[]> {
    return (await this.#transport.json('GET', '/v1/server/checks')) as CheckView[]
  }

  /** Opens the server's loopback TCP listener if it is not open yet, and returns its address. */
  async listen(port = 0): Promise<TcpAddressView> {
    return (await this.#transport.json('POST', '/v1/server/listen', { port })) as TcpAddressView
  }

  /** The address of a port for a browser. If the port is private, `openUrl` lets one browser in, once. */
  async preview(ref: string, port: number): Promise<PreviewView> {
    return (await this.#transport.json(
      'POST',
      `/v1/sandboxes/${encodeURIComponent(ref)}/ports/${port}`,
    )) as PreviewView
  }

  async createKey(
    o: {
      name?: string
      scope?: Scope
      ttlMs?: number | undefined
      network?: CreateKey['network']
      isolation?: Isolation | undefined
    } = {},
  ): Promise<CreatedKeyView> {
    return (await this.#transport.json('POST', '/v1/keys', o)) as CreatedKeyView
  }

  async keys(): Promise<KeyView[]> {
    return (await this.#transport.json('GET', '/v1/keys')) as KeyView[]
  }

  async revokeKey(id: string): Promise<KeyView> {
    return (await this.#transport.json('DELETE', `/v1/keys/${encodeURIComponent(id)}`)) as KeyView
  }

  /** The audit log, oldest first; at most 1,000 entries after `after`. For admins. */
  async audit(after = 0): Promise<AuditEntryView[]> {
    return (await this.#transport.json('GET', `/v1/audit?after=${after}`)) as AuditEntryView[]
  }

  /** Network decisions of all sandboxes, oldest first; at most 1,000 after `after`. For admins. */
  async networkAudit(after = 0): Promise<SandboxEventView[]> {
    return (await this.#transport.json('GET', `/v1/audit/network?after=${after}`)) as SandboxEventView[]
  }

  async stopServer(): Promise<void> {
    await this.#transport.json('POST', '/v1/server/stop')
  }

  /** Destroys every sandbox, snapshot and volume, removes all caches, and stops the server. */
  async clear(): Promise<void> {
    await this.#transport.json('POST', '/v1/server/clear')
  }

  /** Closes idle connections. */
  close(): void {
    this.#transport.close()
  }
}
