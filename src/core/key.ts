/** A key to the API. Its secret is shown once; what is kept is a hash. */
import type { NetworkCap } from './network.ts'

export const SCOPES = ['sandboxes', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** What a key gets that says nothing: any rule may be asked for, and nothing is open that no rule names. */
export const DEFAULT_CAP: NetworkCap = { mode: 'allowlist' }

export interface Key {
  readonly id: string
  readonly name: string
  /** `sandboxes`: makes and uses its own. `admin`: sees everything, and keeps keys. */
  readonly scope: Scope
  readonly network: NetworkCap
  readonly createdAt: number
  readonly expiresAt: number | undefined
  readonly revokedAt: number | undefined
}
