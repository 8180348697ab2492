import type { NetworkCap } from './network.ts'
import type { Sandbox } from './sandbox.ts'

/** The caller. A key owns what it makes; admins see everything. */
export interface Principal {
  /** The id of a key, or `local` for the user of the unix socket. */
  readonly owner: string
  readonly isAdmin: boolean
  /** The most that its sandboxes may reach; without it there is no limit. */
  readonly network?: NetworkCap | undefined
}

export const LOCAL: Principal = { owner: 'local', isAdmin: true }

export function maySee(who: Principal, sandbox: Sandbox): boolean {
  return who.isAdmin || sandbox.owner === who.owner
}
