/** The only writer of group records. All of them are also held in memory; the database is written first. */
import { AgentPodError } from '../../core/error.ts'
import type { Group, GroupMember, GroupState } from '../../core/group/group.ts'
import { type GroupId, isGroupId, type SandboxId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { GroupStore } from '../../store/groups.ts'
import { nearest } from '../../util/nearest.ts'

export class GroupRegistry {
  readonly #store: GroupStore
  readonly #groups = new Map<GroupId, Group>()
  readonly #ofSandbox = new Map<SandboxId, GroupId>()
  /** Groups that this process is making. Their sandboxes may have no records yet. */
  readonly inMaking = new Set<GroupId>()
  /** Groups that are being paused, stopped or copied. Connections between members wake none meanwhile. */
  readonly standing = new Set<GroupId>()
  /** Groups whose members will be compared with the main one when the lock of the group is free. */
  readonly toFollow = new Set<GroupId>()

  constructor(store: GroupStore) {
    this.#store = store
    for (const group of store.all()) this.#remember(group)
  }

  /** Stores the intent to make a group. */
  add(group: Group): void {
    this.#store.insert(group)
    this.#remember(group)
  }

  setState(group: Group, state: GroupState): Group {
    return this.#write({ ...this.require(group.id), state })
  }

  setMember(group: Group, name: string, change: Partial<Omit<GroupMember, 'name'>>): Group {
    const now = this.require(group.id)
    const members = now.members.map((one) => (one.name === name ? { ...one, ...change } : one))
    return this.#write({ ...now, members })
  }

  forget(id: GroupId): void {
    this.#store.remove(id)
    for (const { sandbox } of this.#groups.get(id)?.members ?? [])
      if (sandbox) this.#ofSandbox.delete(sandbox)
    this.#groups.delete(id)
  }

  /** Every record, oldest first, including unfinished ones. */
  all(): Group[] {
    return [...this.#groups.values()]
  }

  /** The group that a sandbox is a member of now. */
  ofSandbox(id: SandboxId): Group | undefined {
    const group = this.#ofSandbox.get(id)
    return group && this.#groups.get(group)
  }

  /** The groups that a caller may see. */
  list(who: Principal): Group[] {
    return this.all().filter(({ owner }) => who.isAdmin || owner === who.owner)
  }

  /** By id or name. Another owner's group gets the same `not_found` as one that never existed. */
  get(ref: string, who: Principal): Group {
    const visible = this.list(who)
    const found =
      visible.find(({ owner, name }) => owner === who.owner && name === ref) ??
      visible.find(({ id, name }) => (isGroupId(ref) ? id === ref : name === ref))
    if (found) return found
    const near = nearest(
      ref,
      visible.map(({ name }) => name),
    )
    throw unknownGroup(ref, near)
  }

  require(id: GroupId): Group {
    const group = this.#groups.get(id)
    if (group) return group
    throw unknownGroup(id)
  }

  has(id: GroupId): boolean {
    return this.#groups.has(id)
  }

  #write(group: Group): Group {
    this.#store.update(group)
    for (const { sandbox } of this.#groups.get(group.id)?.members ?? [])
      if (sandbox) this.#ofSandbox.delete(sandbox)
    this.#remember(group)
    return group
  }

  #remember(group: Group): void {
    this.#groups.set(group.id, group)
    for (const { sandbox } of group.members) if (sandbox) this.#ofSandbox.set(sandbox, group.id)
  }
}

function unknownGroup(ref: string, near?: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'group.unknown',
    message: `there is no group ${ref}`,
    hint: `${near === undefined ? '' : `did you mean ${near}? `}\`agentpod group ls\` lists yours`,
  })
}
