/** Groups: sandboxes that know each other by name, and are handled as one. */
import type { GroupId, SandboxId } from '../id.ts'
import type { State } from '../lifecycle.ts'

export const GROUP_STATES = ['creating', 'ready', 'destroying'] as const
export type GroupState = (typeof GROUP_STATES)[number]

export interface GroupMember {
  /** A host name that is unique in the group. Other members connect to it. */
  readonly name: string
  /** Further host names of this member. */
  readonly aliases: readonly string[]
  /** Undefined until a sandbox takes this place. */
  readonly sandbox: SandboxId | undefined
  /**
   * The sandbox that people work in. The others are paused, resumed, stopped, started and extended with it,
   * and the group ends with it.
   */
  readonly isMain: boolean
  /** Members that are ready before this one starts. */
  readonly after: readonly string[]
  /** Of the main member: the state that the others were brought to. Undefined until they followed it once. */
  readonly followed?: Followed | undefined
}

/** Stored before the others are changed, and again when all of them have the state. */
export interface Followed {
  readonly state: State
  readonly isDone: boolean
}

export interface Group {
  readonly id: GroupId
  /** The owner: the id of a key, or `local`. All members belong to it. */
  readonly owner: string
  /** Unique among one owner's groups. */
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly state: GroupState
  readonly members: readonly GroupMember[]
  readonly createdAt: number
}

export const MOST_MEMBERS = 32
export const MOST_ALIASES = 16

/** The member that answers to a host name. */
export function memberNamed({ members }: Group, host: string): GroupMember | undefined {
  return members.find(({ name, aliases }) => name === host || aliases.includes(host))
}

export function hostsOf({ members }: Group): string[] {
  return members.flatMap(({ name, aliases }) => [name, ...aliases])
}
