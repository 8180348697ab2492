import type { Isolation } from './capability.ts'
import type { ErrorCode } from './error.ts'
import type { SandboxId, SnapshotId } from './id.ts'
import type { State } from './lifecycle.ts'
import type { SandboxLink } from './network.ts'
import type { Handle, RootRef } from './provider.ts'
import type { LimitLevels } from './resources.ts'
import type { Spec } from './spec.ts'

/** Why a sandbox failed, or ended without a request. */
export interface Ending {
  readonly code: ErrorCode
  readonly reason: string
  readonly message: string
}

/** The record of a sandbox. Times are unix milliseconds. */
export interface Sandbox {
  readonly id: SandboxId
  /** The owner: the id of a key, or `local`. */
  readonly owner: string
  readonly name: string | undefined
  readonly labels: Readonly<Record<string, string>>
  readonly provider: string
  readonly isolation: Isolation
  readonly state: State
  readonly spec: Spec
  readonly limits: LimitLevels | undefined
  readonly handle: Handle | undefined
  readonly link: SandboxLink | undefined
  /** What its files lie on; a later start uses the same root. */
  readonly root: RootRef | undefined
  readonly createdAt: number
  readonly startedAt: number | undefined
  readonly deadlineAt: number
  readonly endedAt: number | undefined
  readonly ending: Ending | undefined
  /** The last snapshot with the same files: the one it was made from, or the newest one taken of it. */
  readonly tip: SnapshotId | undefined
  readonly forkedFrom: SandboxId | undefined
  /** When it was paused, while it is. */
  readonly pausedAt: number | undefined
  /** The size of its memory on the disk, if it is paused to disk. */
  readonly savedBytes: number | undefined
}
