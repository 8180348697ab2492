/** Groups: sandboxes that know each other by name and are handled as one. */
import type { CreateGroup, GroupView, MemberSnapshotView } from '../api/schema/group.ts'
import type { Transport } from './transport.ts'

export type GroupInfo = GroupView
export type GroupOptions = CreateGroup
export type MemberSnapshotInfo = MemberSnapshotView

const GROUPS = '/v1/groups'

export class Groups {
  readonly #transport: Transport

  /** Use `AgentPod.groups`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Returns when every member is ready. On failure nothing is left. */
  async create(o: GroupOptions): Promise<GroupInfo> {
    return (await this.#transport.json('POST', GROUPS, o)) as GroupInfo
  }

  /** Oldest first. */
  async list(): Promise<GroupInfo[]> {
    return (await this.#transport.json('GET', GROUPS)) as GroupInfo[]
  }

  /** By id or name. */
  async get(ref: string): Promise<GroupInfo> {
    return (await this.#transport.json('GET', pathOf(ref))) as GroupInfo
  }

  /** Destroys all its sandboxes. */
  async destroy(ref: string): Promise<void> {
    await this.#transport.json('DELETE', pathOf(ref))
  }

  pause(ref: string): Promise<GroupInfo> {
    return this.#change(ref, 'pause')
  }

  resume(ref: string, o: { readonly ttlMs?: number | undefined } = {}): Promise<GroupInfo> {
    return this.#change(ref, 'resume', o)
  }

  stop(ref: string): Promise<GroupInfo> {
    return this.#change(ref, 'stop')
  }

  start(ref: string, o: { readonly ttlMs?: number | undefined } = {}): Promise<GroupInfo> {
    return this.#change(ref, 'start', o)
  }

  /** One snapshot of each member, named NAME-MEMBER. */
  async snapshot(ref: string, o: { readonly name: string }): Promise<MemberSnapshotInfo[]> {
    return (await this.#transport.json('POST', `${pathOf(ref)}/snapshots`, o)) as MemberSnapshotInfo[]
  }

  fork(ref: string, o: { readonly name: string }): Promise<GroupInfo> {
    return this.#change(ref, 'fork', o)
  }

  async #change(ref: string, verb: string, body?: object): Promise<GroupInfo> {
    return (await this.#transport.json('POST', `${pathOf(ref)}/${verb}`, body)) as GroupInfo
  }
}

function pathOf(ref: string): string {
  return `${GROUPS}/${encodeURIComponent(ref)}`
}
