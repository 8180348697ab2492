/** A key to the API. Its secret is shown once; only a hash is stored. */
import type { Isolation } from './capability.ts'
import type { NetworkCap } from './network.ts'

export const SCOPES = ['sandboxes', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** The default of a key: sandboxes may ask for any rule, and reach nothing without one. */
export const DEFAULT_CAP: NetworkCap = { mode: 'allowlist' }

export interface Key {
  readonly id: string
  readonly name: string
  /** `sandboxes`: creates and uses its own. `admin`: sees everything, and manages keys. */
  readonly scope: Scope
  readonly network: NetworkCap
  /** The lowest level of its sandboxes; any if left out. */
  readonly isolation?: Isolation | undefined
  readonly createdAt: number
  readonly expiresAt: number | undefined
  readonly revokedAt: number | undefined
}
