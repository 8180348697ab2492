/** Snapshots: the files of a sandbox at one moment. */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { SnapshotView } from '../api/schema/snapshot.ts'
import { readJson, type Transport } from './transport.ts'

export type Snapshot = SnapshotView

export interface SnapshotOptions {
  /** A name that is unique among your snapshots. */
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Keep the memory of its processes too, where the provider can. A copy then continues them. */
  readonly memory?: boolean | undefined
}

export interface SnapshotListOptions {
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly name?: string | undefined
  /** Only snapshots of this sandbox: its id, or the name of one that has not ended. */
  readonly sandbox?: string | undefined
}

const SNAPSHOTS = '/v1/snapshots'

export class Snapshots {
  readonly #transport: Transport

  /** Use `AgentPod.snapshots`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** All snapshots, newest first. */
  async list(o: SnapshotListOptions = {}): Promise<Snapshot[]> {
    const fields = new URLSearchParams()
    for (const [key, value] of Object.entries(o.labels ?? {})) fields.append('label', `${key}=${value}`)
    if (o.name !== undefined) fields.set('name', o.name)
    if (o.sandbox !== undefined) fields.set('sandbox', o.sandbox)
    return (await this.#transport.list(SNAPSHOTS, fields)) as Snapshot[]
  }

  /** By id or name. */
  async get(ref: string): Promise<Snapshot> {
    return (await this.#transport.json('GET', pathOf(ref))) as Snapshot
  }

  /** Sandboxes that were created from it keep their files. */
  async remove(ref: string): Promise<void> {
    await this.#transport.json('DELETE', pathOf(ref))
  }

  /** Exports a snapshot as one archive. A stream that ends with an error is incomplete. */
  export(ref: string, o: { readonly signal?: AbortSignal | undefined } = {}): Promise<IncomingMessage> {
    return this.#transport.open({ method: 'GET', path: `${pathOf(ref)}/archive`, signal: o.signal })
  }

  /** Imports an exported snapshot. `data_loss` if it is damaged or incomplete; nothing is stored then. */
  async import(
    archive: Readable | Buffer,
    o: { readonly name?: string | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Snapshot> {
    const query = o.name === undefined ? '' : `?${new URLSearchParams({ name: o.name })}`
    try {
      const response = await this.#transport.open({
        method: 'POST',
        path: `${SNAPSHOTS}/archive${query}`,
        headers: { 'content-type': 'application/octet-stream' },
        body: archive,
        signal: o.signal,
      })
      return (await readJson(response)) as Snapshot
    } finally {
      // The server may refuse it before the whole archive is sent.
      if (!Buffer.isBuffer(archive)) archive.destroy()
    }
  }
}

function pathOf(ref: string): string {
  return `${SNAPSHOTS}/${encodeURIComponent(ref)}`
}
