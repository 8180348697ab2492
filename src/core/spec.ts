import type { Environment } from './environment.ts'
import type { Resources } from './resources.ts'

/** How long a sandbox lives: until its time to live is over, or until nobody has used it for `idleMs` (0: no such end). */
export interface Lifetime {
  readonly ttlMs: number
  readonly idleMs: number
}

export const DEFAULT_LIFETIME: Lifetime = { ttlMs: 3_600_000, idleMs: 0 }
export const LONGEST_TTL_MS = 30 * 24 * 3_600_000

/** The complete request for a sandbox, with every default filled in. */
export interface Spec {
  readonly environment: Environment
  readonly resources: Resources
  readonly lifetime: Lifetime
  /** Who may reach the ports of programs inside; private where it is left out. */
  readonly ports?: { readonly public: boolean } | undefined
}
