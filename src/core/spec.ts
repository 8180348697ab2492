import type { Isolation } from './capability.ts'
import type { Environment } from './environment.ts'
import type { NetworkSpec } from './network.ts'
import type { Resources } from './resources.ts'

/** What becomes of a sandbox whose time is up: gone, frozen with its memory, or ended with its files kept. */
export const WHEN_OVER = ['destroy', 'pause', 'stop'] as const
export type WhenOver = (typeof WHEN_OVER)[number]

/** How long a sandbox runs: until its time to live is over, or until nobody has used it for `idleMs` (0: no such end). */
export interface Lifetime {
  readonly ttlMs: number
  readonly idleMs: number
  readonly whenOver: WhenOver
  /** Whether a call into it, or traffic to one of its ports, wakes it when it is paused or stopped. */
  readonly autoResume: boolean
}

export const DEFAULT_LIFETIME: Lifetime = {
  ttlMs: 3_600_000,
  idleMs: 0,
  whenOver: 'destroy',
  autoResume: true,
}
export const LONGEST_TTL_MS = 30 * 24 * 3_600_000

/** The complete request for a sandbox, with every default filled in. */
export interface Spec {
  readonly environment: Environment
  readonly resources: Resources
  readonly lifetime: Lifetime
  readonly network: NetworkSpec
  /** Who may reach the ports of programs inside; private where it is left out. */
  readonly ports?: Ports | undefined
  /** The lowest level of isolation that is accepted; any where it is left out. */
  readonly isolation?: Isolation | undefined
}

export interface Ports {
  readonly public: boolean
  /** What a program inside is told as the Host of a request; `${PORT}` stands for its port. As it was sent when left out. */
  readonly maskHost?: string | undefined
}
