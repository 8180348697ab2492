/**
 * The life of a sandbox at this seam.
 *
 * The engine asks `capabilities` what a provider can do, and never asks for more. It makes a base ready: the tools of
 * the machine (`host`), an image (`images`) or layers (`layers`). Each answers with a `RootRef`, which only this provider
 * reads. `create` makes a sandbox on such a root with podd, or another guest, inside, and answers with a `Handle`. The
 * engine stores the handle; `open` turns it into a `Guest`, through which commands run and files move. Through
 * `egress.door` the egress process reaches the sandbox's only way out.
 *
 * While it lives, a sandbox may be paused and resumed (`pausing`), stopped and started (`stopping`), measured
 * (`metering`), and its files kept (`snapshots`): a snapshot is a root for others to begin with. It ends by `destroy`,
 * at its deadline, or by itself; `onExit` tells of it, and `inspect` and `list` are the truth. `list` finds everything by
 * the owner's label alone, so that a server that lost its database, or died between two lines, leaves nothing behind.
 *
 * Every method may be called at any time, in any number at once for different sandboxes; the engine serialises calls
 * for one sandbox. Failures are AgentPodErrors; `unavailable` means "could not ask", never "is gone".
 */
import type { Duplex, Readable } from 'node:stream'
import type { CallOptions } from './call.ts'
import type { Capabilities, Check } from './capability.ts'
import type { Guest } from './guest.ts'
import type { OwnerLabel, SandboxId, SnapshotId } from './id.ts'
import type { NetworkLevel } from './network.ts'
import type { Limited, LimitLevels, Resources } from './resources.ts'
import type { WhenOver } from './spec.ts'

/**
 * What a root file system is made of, in the words of the provider that gave it; everybody else stores it as JSON and
 * reads `over` alone: snapshots whose files lie over the base, lowest first, and are shared. Each of them was made of a
 * sandbox whose root was what is below it here, or a root of the same kind: then it keeps to paths of its own. The
 * identity of a sandbox (machine id, host name, hosts) is its own, whatever the snapshots hold.
 */
export interface RootRef {
  readonly over?: readonly SnapshotId[] | undefined
  readonly [detail: string]: unknown
}

export interface CreatePlan {
  readonly sandboxId: SandboxId
  readonly owner: OwnerLabel
  readonly hostname: string
  readonly root: RootRef
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
  /** With the deadline where the provider holds one. */
  | { readonly state: 'running'; readonly deadlineAt?: number | undefined }
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
  /** What the provider lacks here and how to get it. Slow: it tries things. */
  diagnose(o: CallOptions): Promise<readonly Check[]>
  /**
   * Idempotent on `plan.sandboxId`: a second call finds the first one's sandbox. On failure nothing is left. `not_found` when a part
   * of the root is not there.
   */
  create(plan: CreatePlan, o: CallOptions): Promise<Created>
  /** `absent` is an answer, an outage is an error. */
  inspect(id: SandboxId, o: CallOptions): Promise<Observed>
  /** Everything of this owner that exists, found without our database. */
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly Listed[]>
  /** A handle on the inside. Does not wait for it to answer. */
  open(handle: Handle): Guest
  /** Idempotent; resolves only when everything of the sandbox is gone. */
  destroy(id: SandboxId, o: CallOptions): Promise<void>
  /** Removes everything kept for later sandboxes, and ends helpers. `conflict` while a sandbox or a snapshot exists. */
  clear(o: CallOptions): Promise<void>
  /** Calls back when a sandbox ends, or is paused at its deadline. Returns the unsubscribe. May miss some; `inspect` is the truth. */
  onExit(listener: (exit: Exit) => void): () => void
  /** Releases connections. Sandboxes live on. */
  close(): void

  // What a provider may lack. Each group is present exactly when its level in `Capabilities` says so.

  /** `deadlines` is `provider`. */
  readonly deadlines?: Deadlines | undefined
  /** `pause` is not `none`. */
  readonly pausing?: Pausing | undefined
  /** `stop` is not `none`. */
  readonly stopping?: Stopping | undefined
  /** `metering` is not `none`. */
  readonly metering?: Metering | undefined
  /** `network` is `proxy` or `transparent`. */
  readonly egress?: Egress | undefined
  /** `host` */
  readonly host?: HostBase | undefined
  /** `images` */
  readonly images?: Images | undefined
  /** `layers` */
  readonly layers?: Layers | undefined
  /** `snapshot` is not `none`. */
  readonly snapshots?: Snapshots | undefined
}

export interface Deadlines {
  /** Moves the provider's own deadline. Idempotent. */
  extend(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
}

export interface Pausing {
  /** Freezes every process and keeps its memory. No deadline counts meanwhile. Idempotent. */
  pause(id: SandboxId, o: CallOptions): Promise<void>
  /** Lets it run on, with a new deadline. Idempotent. */
  resume(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
}

export interface Stopping {
  /** Ends every process and keeps the files. Idempotent; also of a sandbox that has exited. */
  stop(id: SandboxId, o: CallOptions): Promise<void>
  /** Runs a stopped sandbox again on its files. Idempotent. On failure it is stopped as before. */
  start(plan: CreatePlan, o: CallOptions): Promise<Created>
}

export interface Metering {
  stats(id: SandboxId, o: CallOptions): Promise<HostStats>
}

export interface Egress {
  /** Where connections out of the sandbox are taken from; undefined where it has no way out. */
  door(handle: Handle): EgressDoor | undefined
}

/**
 * `socket`: a unix socket of this machine. The egress process dials it by itself, and goes on while no server runs.
 * `stream`: the server dials for it.
 */
export type EgressDoor =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'stream'; dial(o: CallOptions): Promise<Duplex> }

/** The tools of this machine, as a base. */
export interface HostBase {
  root(): RootRef
}

export interface Images {
  /** Pulls the image where it is not there. `not_found` (`image.unknown`) when the registry has none of that name. */
  ensure(ref: string, onProgress: (line: string) => void, o: CallOptions): Promise<Image>
}

export interface Image {
  /** As it was asked for. */
  readonly ref: string
  readonly digest: string
  readonly root: RootRef
  readonly env: Readonly<Record<string, string>>
  /** Who its programs run as, where the image says so. */
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

/** A snapshot as the provider keeps it. `sizeBytes` is of its own files: what they lie on, snapshots below included, is not in it. */
export interface Kept {
  readonly sizeBytes: number
  readonly root: RootRef
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
  /** Its own files as one stream. */
  export(id: SnapshotId, o: CallOptions): Promise<Packed>
  /**
   * The reverse. `data_loss` when the content is not what `digest` says, `not_found` when something that the root names is not there;
   * nothing is left then. Idempotent on `id`.
   */
  import(
    id: SnapshotId,
    owner: OwnerLabel,
    packed: Pick<Packed, 'digest' | 'content'> & { readonly root: RootRef },
    o: CallOptions,
  ): Promise<Kept>
}

/** The content of a snapshot or a layer. Whoever gets it reads it to its end or destroys it. */
export interface Packed {
  /** sha256 of the content. */
  readonly digest: string
  readonly sizeBytes: number
  readonly content: Readable
}

/** A store of immutable file-system layers on the provider's side. */
export interface Layers {
  has(digest: string, o: CallOptions): Promise<boolean>
  /** Takes a tar stream whose sha256 is `digest`. Idempotent. `data_loss` when the content does not match. */
  import(digest: string, content: Readable, o: CallOptions): Promise<void>
  /** Idempotent. `conflict` while a sandbox or a snapshot stands on it, be there other snapshots in between or not. */
  remove(digest: string, o: CallOptions): Promise<void>
  /** Importing the content gives a layer with the same files, and the content's digest for a name. */
  export(digest: string, o: CallOptions): Promise<Packed>
  /** A root of these layers, lowest first. */
  root(digests: readonly string[]): RootRef
  /** The layers that a root was made of, lowest first; none where it is of another kind. */
  of(root: RootRef): readonly string[]
}
