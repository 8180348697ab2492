import type { NetworkCap } from './network.ts'
import type { Sandbox } from './sandbox.ts'

/** Who asks. A key owns what it makes; admins see everything. */
export interface Principal {
  /** The id of a key, or `local` for whoever may open the unix socket. */
  readonly owner: string
  readonly isAdmin: boolean
  /** What its sandboxes may reach at most; anything where it is left out. */
  readonly network?: NetworkCap | undefined
}

export const LOCAL: Principal = { owner: 'local', isAdmin: true }

export function maySee(who: Principal, sandbox: Sandbox): boolean {
  return who.isAdmin || sandbox.owner === who.owner
}
