import type { Isolation } from './capability.ts'
import type { Environment } from './environment.ts'
import type { NetworkSpec } from './network.ts'
import type { Resources } from './resources.ts'
import type { EphemeralDirectory } from './volume/ephemeral.ts'
import type { VolumeMount } from './volume/volume.ts'

/**
 * What happens to a sandbox at its deadline: destroyed, frozen with its memory, or stopped with its files.
 */
export const WHEN_OVER = ['destroy', 'pause', 'stop'] as const
export type WhenOver = (typeof WHEN_OVER)[number]

/**
 * How long a sandbox runs: until its time to live is over, or until it was idle for `idleMs` (0: no idle
 * limit).
 */
export interface Lifetime {
  readonly ttlMs: number
  readonly idleMs: number
  readonly whenOver: WhenOver
  /** When it was idle for `idleMs`, it is paused and its time goes on later; otherwise as `whenOver` says. */
  readonly whenIdle?: 'pause' | undefined
  /**
   * How long it stays paused with its memory before that is written to the disk, where the provider can do
   * that; never if left out.
   */
  readonly toDiskAfterMs?: number | undefined
  /** Whether a call into it, or traffic to one of its ports, wakes it when it is paused or stopped. */
  readonly autoResume: boolean
}

export const DEFAULT_LIFETIME: Lifetime = {
  ttlMs: 3_600_000,
  idleMs: 0,
  whenOver: 'destroy',
  autoResume: true,
}
/**
 * The lifetime of a sandbox that a person keeps: it loses nothing. It is paused when it is idle, and stopped
 * after a day without a pause.
 */
export const KEPT_LIFETIME = {
  ttlMs: 24 * 3_600_000,
  idleMs: 30 * 60_000,
  whenOver: 'stop',
  whenIdle: 'pause',
} as const satisfies Partial<Lifetime>

/** How many stopped sandboxes a person may keep, unless their `config.toml` says otherwise. */
export const DEFAULT_KEPT = 50

export const LONGEST_TTL_MS = 30 * 24 * 3_600_000

/** The complete request for a sandbox, with every default filled in. */
export interface Spec {
  readonly environment: Environment
  readonly resources: Resources
  readonly lifetime: Lifetime
  readonly network: NetworkSpec
  /** Who may reach ports of programs inside; private if left out. */
  readonly ports?: Ports | undefined
  /** The lowest acceptable level of isolation; any if left out. */
  readonly isolation?: Isolation | undefined
  /** Whether a Docker engine runs inside. Copies of the sandbox have one too. */
  readonly docker?: boolean | undefined
  /** The volumes that it mounts. Copies of the sandbox do not inherit them. */
  readonly volumes?: readonly VolumeMount[] | undefined
  /** Directories that are never kept. Copies of the sandbox have them too, empty. */
  readonly ephemeral?: readonly EphemeralDirectory[] | undefined
}

export interface Ports {
  readonly public: boolean
  /** The Host header that a program inside sees; `${PORT}` is replaced by its port. Unchanged if left out. */
  readonly maskHost?: string | undefined
}
