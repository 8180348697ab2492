/** Groups, as the API asks for them: access is checked, calls are audited. */
import type { Duplex } from 'node:stream'
import type { AuditAction } from '../../core/audit.ts'
import type { Group } from '../../core/group/group.ts'
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Context } from '../context.ts'
import { checkTtl } from '../lifecycle/extend.ts'
import { recordAudit } from '../record-audit.ts'
import { followLater } from './follow-main.ts'
import {
  endGroup,
  makeGroup,
  type NewGroup,
  pauseGroup,
  resumeGroup,
  startGroup,
  stopGroup,
} from './group.ts'
import { forkGroup, type MemberSnapshot, snapshotGroup, takeForFork } from './group-snapshots.ts'
import { type MemberCall, memberLimits, reachMember } from './reach-member.ts'

/** A group with the records of its sandboxes, by member. */
export interface GroupWithSandboxes {
  readonly group: Group
  readonly sandboxes: ReadonlyMap<string, Sandbox>
}

export class GroupOperations {
  readonly #ctx: Context
  readonly #limits = memberLimits()

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  async create(request: NewGroup, who: Principal): Promise<GroupWithSandboxes> {
    const group = await makeGroup(this.#ctx, request, who)
    followLater(this.#ctx, group)
    recordAudit(this.#ctx, who, 'group.create', { subject: group.id, data: { name: group.name } })
    return this.#whole(group)
  }

  /** Oldest first. */
  list(who: Principal): GroupWithSandboxes[] {
    return this.#ctx.groupRegistry.list(who).map((group) => this.#whole(group))
  }

  /** By id or name; `not_found` otherwise. */
  get(ref: string, who: Principal): GroupWithSandboxes {
    return this.#whole(this.#ctx.groupRegistry.get(ref, who))
  }

  pause(ref: string, who: Principal): Promise<GroupWithSandboxes> {
    return this.#change(ref, who, 'group.pause', (group) => pauseGroup(this.#ctx, group))
  }

  resume(ref: string, who: Principal, ttlMs?: number): Promise<GroupWithSandboxes> {
    if (ttlMs !== undefined) checkTtl(ttlMs)
    return this.#change(ref, who, 'group.resume', (group) => resumeGroup(this.#ctx, group, ttlMs))
  }

  stop(ref: string, who: Principal): Promise<GroupWithSandboxes> {
    return this.#change(ref, who, 'group.stop', (group) => stopGroup(this.#ctx, group))
  }

  start(ref: string, who: Principal, ttlMs?: number): Promise<GroupWithSandboxes> {
    if (ttlMs !== undefined) checkTtl(ttlMs)
    return this.#change(ref, who, 'group.start', (group) => startGroup(this.#ctx, group, ttlMs))
  }

  async snapshot(ref: string, name: string, who: Principal): Promise<MemberSnapshot[]> {
    const group = this.#ctx.groupRegistry.get(ref, who)
    const taken = await this.#locked(group, () => snapshotGroup(this.#ctx, group, name, who))
    recordAudit(this.#ctx, who, 'group.snapshot', { subject: group.id, data: { name } })
    return taken
  }

  async fork(ref: string, name: string, who: Principal): Promise<GroupWithSandboxes> {
    const group = this.#ctx.groupRegistry.get(ref, who)
    const taken = await this.#locked(group, () => takeForFork(this.#ctx, group, who))
    // Without the lock: the original is used while the copy starts.
    const forked = await forkGroup(this.#ctx, { group, taken, name }, who)
    followLater(this.#ctx, forked)
    recordAudit(this.#ctx, who, 'group.fork', { subject: group.id, data: { group: forked.id } })
    return this.#whole(forked)
  }

  /** Returns the last record. */
  async destroy(ref: string, who: Principal): Promise<GroupWithSandboxes> {
    const group = this.#ctx.groupRegistry.get(ref, who)
    const last = this.#whole({ ...group, state: 'destroying' })
    recordAudit(this.#ctx, who, 'group.destroy', { subject: group.id, data: { name: group.name } })
    // Without the lock, because a member that takes long to start would hold it.
    await endGroup(this.#ctx, group)
    return last
  }

  /** A connection between two members, for the egress process. */
  dial(call: MemberCall, signal: AbortSignal): Promise<Duplex> {
    return reachMember(this.#ctx, call, this.#limits, signal)
  }

  async #change(
    ref: string,
    who: Principal,
    action: AuditAction,
    work: (group: Group) => Promise<void>,
  ): Promise<GroupWithSandboxes> {
    const group = this.#ctx.groupRegistry.get(ref, who)
    await this.#locked(group, () => work(group))
    recordAudit(this.#ctx, who, action, { subject: group.id })
    return this.#whole(this.#ctx.groupRegistry.require(group.id))
  }

  #locked<T>({ id }: Group, work: () => Promise<T>): Promise<T> {
    return this.#ctx.lock.run(`group:${id}`, work)
  }

  #whole(group: Group): GroupWithSandboxes {
    const sandboxes = group.members.flatMap(({ name, sandbox }) => {
      const record = sandbox && this.#ctx.registry.get(sandbox)
      return record ? [[name, record] as const] : []
    })
    return { group, sandboxes: new Map(sandboxes) }
  }
}
