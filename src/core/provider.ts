/**
 * Who gives you a sandbox. Every method may be called at any time, in any number at once for different sandboxes; the
 * engine serialises calls for one sandbox. Failures are AgentPodErrors; `unavailable` means "could not ask", never "is gone".
 */
import type { CallOptions } from './call.ts'
import type { Capabilities, Check } from './capability.ts'
import type { Guest } from './guest.ts'
import type { OwnerLabel, SandboxId } from './id.ts'
import type { Limited, LimitLevels, Resources } from './resources.ts'

/** Where the root file system comes from. */
export type RootPlan =
  | { readonly kind: 'host' }
  | { readonly kind: 'layers'; readonly layers: readonly string[] }

export interface CreatePlan {
  readonly sandboxId: SandboxId
  readonly owner: OwnerLabel
  readonly hostname: string
  readonly root: RootPlan
  readonly resources: Resources
  /** Limits that must be enforced; where one cannot be, create answers `unsupported` before anything is made. */
  readonly required: readonly Limited[]
  /** Unix milliseconds after which the provider ends the sandbox by itself. */
  readonly deadlineAt: number
}

/** What the engine stores to find the sandbox again. Opaque but for its id. */
export interface Handle {
  readonly sandboxId: SandboxId
  readonly data: Readonly<Record<string, unknown>>
}

export interface Created {
  readonly handle: Handle
  readonly limits: LimitLevels
  /** Variables the root file system needs to be useful, such as PATH. */
  readonly env: Readonly<Record<string, string>>
}

export type Observed =
  | { readonly state: 'running'; readonly deadlineAt: number }
  | { readonly state: 'exited'; readonly oomKilled: boolean; readonly expired: boolean }
  | { readonly state: 'absent' }

export interface Listed {
  readonly handle: Handle
  readonly observed: Observed
}

export interface Exit {
  readonly sandboxId: SandboxId
  readonly oomKilled: boolean
  readonly expired: boolean
}

export interface HostStats {
  readonly cpuMs: number
  readonly memBytes: number
  readonly memPeakBytes: number
  readonly memLimitBytes: number
  readonly pids: number
  readonly pidsLimit: number
  readonly oomKills: number
  readonly diskBytes: number
}

export interface Provider {
  readonly name: string
  /** Probed once and remembered; cheap afterwards. */
  capabilities(o: CallOptions): Promise<Capabilities>
  /** What this host lacks and how to get it. Slow: it tries things. */
  diagnose(o: CallOptions): Promise<readonly Check[]>
  /** Idempotent on `plan.sandboxId`: a second call finds the first one's sandbox. On failure nothing is left. */
  create(plan: CreatePlan, o: CallOptions): Promise<Created>
  /** `absent` is an answer, an outage is an error. */
  inspect(id: SandboxId, o: CallOptions): Promise<Observed>
  /** Everything of this owner that exists, found without our database. */
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly Listed[]>
  /** A handle on the inside. Does not wait for it to answer. */
  open(handle: Handle): Guest
  /** Moves the provider's own deadline. Idempotent. */
  extend(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
  stats(id: SandboxId, o: CallOptions): Promise<HostStats>
  /** Idempotent; resolves only when everything of the sandbox is gone. */
  destroy(id: SandboxId, o: CallOptions): Promise<void>
  /** Removes layers and everything else kept for later sandboxes, and ends helpers. `conflict` while a sandbox lives. */
  clear(o: CallOptions): Promise<void>
  /** Calls back when a sandbox ends by itself. Returns the unsubscribe. May miss ends; `inspect` is the truth. */
  onExit(listener: (exit: Exit) => void): () => void
  /** Present exactly when `capabilities().layers`. */
  readonly layers?: Layers
}

/** A store of immutable file-system layers on the provider's side. */
export interface Layers {
  has(digest: string, o: CallOptions): Promise<boolean>
  /** Takes a tar file whose sha256 is `digest`. Idempotent. `data_loss` when the content does not match. */
  import(digest: string, file: string, o: CallOptions): Promise<void>
}
