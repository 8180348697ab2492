/**
 * Who gives you a sandbox. Every method may be called at any time, in any number at once for different sandboxes; the
 * engine serialises calls for one sandbox. Failures are AgentPodErrors; `unavailable` means "could not ask", never "is gone".
 */
import type { CallOptions } from './call.ts'
import type { Capabilities, Check } from './capability.ts'
import type { Guest } from './guest.ts'
import type { OwnerLabel, SandboxId, SnapshotId } from './id.ts'
import type { NetworkLevel } from './network.ts'
import type { Limited, LimitLevels, Resources } from './resources.ts'
import type { WhenOver } from './spec.ts'

/**
 * Where the root file system comes from: this machine's tools or layers, lowest first, and over that snapshots, lowest first, whose files
 * many sandboxes share. Each of the snapshots was made of a sandbox whose root was what is below it here, or one of the same kind: then it
 * holds paths of its own. The identity of a sandbox (machine id, host name, hosts) is its own, whatever the snapshots hold.
 */
export type RootPlan =
  | { readonly kind: 'host'; readonly over?: readonly SnapshotId[] | undefined }
  | {
      readonly kind: 'layers'
      readonly layers: readonly string[]
      readonly over?: readonly SnapshotId[] | undefined
    }

export interface CreatePlan {
  readonly sandboxId: SandboxId
  readonly owner: OwnerLabel
  readonly hostname: string
  readonly root: RootPlan
  readonly resources: Resources
  /** Limits that must be enforced; where one cannot be, create answers `unsupported` before anything is made. */
  readonly required: readonly Limited[]
  /** Unix milliseconds after which the provider ends the sandbox by itself, in the way `whenOver` says. */
  readonly deadlineAt: number
  readonly whenOver: WhenOver
  /** Whose files it begins with; `root` is then the snapshot's, and may have more in `over`. */
  readonly snapshot?: SnapshotId | undefined
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
  /** How its connections get to the way out. */
  readonly network: NetworkLevel
}

export type Observed =
  | { readonly state: 'running'; readonly deadlineAt: number }
  | { readonly state: 'paused' }
  | { readonly state: 'stopped' }
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
  /**
   * Idempotent on `plan.sandboxId`: a second call finds the first one's sandbox. On failure nothing is left. `not_found` when a layer
   * or a snapshot of the root is not there.
   */
  create(plan: CreatePlan, o: CallOptions): Promise<Created>
  /** `absent` is an answer, an outage is an error. */
  inspect(id: SandboxId, o: CallOptions): Promise<Observed>
  /** Everything of this owner that exists, found without our database. */
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly Listed[]>
  /** A handle on the inside. Does not wait for it to answer. */
  open(handle: Handle): Guest
  /** The socket at which the egress process dials into the sandbox; undefined where it has no way out. */
  wayOut(handle: Handle): string | undefined
  /** Moves the provider's own deadline. Idempotent. */
  extend(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
  /** Freezes every process and keeps its memory. No deadline counts meanwhile. Idempotent. `unsupported` before anything is touched. */
  pause(id: SandboxId, o: CallOptions): Promise<void>
  /** Lets it run on, with a new deadline. Idempotent. */
  resume(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
  /** Ends every process and keeps the files. Idempotent; also of a sandbox that has exited. */
  stop(id: SandboxId, o: CallOptions): Promise<void>
  /** Runs a stopped sandbox again on its files. Idempotent. On failure it is stopped as before. */
  start(plan: CreatePlan, o: CallOptions): Promise<Created>
  stats(id: SandboxId, o: CallOptions): Promise<HostStats>
  /** Idempotent; resolves only when everything of the sandbox is gone. */
  destroy(id: SandboxId, o: CallOptions): Promise<void>
  /** Removes layers and everything else kept for later sandboxes, and ends helpers. `conflict` while a sandbox or a snapshot exists. */
  clear(o: CallOptions): Promise<void>
  /** Calls back when a sandbox ends, or is paused at its deadline. Returns the unsubscribe. May miss some; `inspect` is the truth. */
  onExit(listener: (exit: Exit) => void): () => void
  /** Present exactly when `capabilities().layers`. */
  readonly layers?: Layers
  readonly images?: Images
  /** Present exactly when `capabilities().snapshot` is not `none`. */
  readonly snapshots?: Snapshots
}

/** A snapshot as the provider keeps it. `sizeBytes` is of its own files: what they lie on, snapshots below included, is not in it. */
export interface Kept {
  readonly sizeBytes: number
  readonly root: RootPlan
}

/** Files of sandboxes as they were at one moment. */
export interface Snapshots {
  /**
   * Idempotent on `id`. A running sandbox stands still for a moment and runs on; `unsupported`, before anything is touched, where it
   * cannot. On failure nothing is left and the sandbox is as it was.
   */
  create(id: SnapshotId, sandboxId: SandboxId, owner: OwnerLabel, o: CallOptions): Promise<Kept>
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly SnapshotId[]>
  /**
   * Idempotent. Sandboxes made from it keep their files. `conflict` (`snapshot.used`) while the root of a sandbox, whether it runs or
   * not, or of another snapshot has it in `over`.
   */
  remove(id: SnapshotId, o: CallOptions): Promise<void>
  /** Writes its files to a new file of that name in the directory that layers are imported from too. */
  export(id: SnapshotId, file: string, o: CallOptions): Promise<Packed>
  /**
   * The reverse. `data_loss` when the file is not what `digest` says, `not_found` when something that the root names is not there;
   * nothing is left then. Idempotent on `id`.
   */
  import(
    id: SnapshotId,
    owner: OwnerLabel,
    packed: Packed & { readonly file: string; readonly root: RootPlan },
    o: CallOptions,
  ): Promise<Kept>
}

/** A file with a snapshot's or a layer's content. */
export interface Packed {
  readonly digest: string
  readonly sizeBytes: number
}

/** Container images that the provider fetches by itself. */
export interface Images {
  /** Pulls it where it is not there. `not_found` with reason `image.unknown`. */
  ensure(ref: string, onProgress: (line: string) => void, o: CallOptions): Promise<Image>
}

export interface Image {
  readonly ref: string
  /** What the reference stands for: `sha256:...`. */
  readonly digest: string
  readonly root: RootPlan
  /** What the image's own settings say. */
  readonly env: Readonly<Record<string, string>>
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

/** A store of immutable file-system layers on the provider's side. */
export interface Layers {
  has(digest: string, o: CallOptions): Promise<boolean>
  /** Takes a tar file whose sha256 is `digest`. Idempotent. `data_loss` when the content does not match. */
  import(digest: string, file: string, o: CallOptions): Promise<void>
  /** Idempotent. `conflict` while a sandbox or a snapshot stands on it, be there other snapshots in between or not. */
  remove(digest: string, o: CallOptions): Promise<void>
  /** Writes a layer to a new file; importing that gives a layer with the same content, and the file's digest for a name. */
  export(digest: string, file: string, o: CallOptions): Promise<Packed>
}
