/**
 * The lifecycle of a sandbox at this seam.
 *
 * The engine asks `capabilities` what a provider can do, and never asks for more. It prepares a base: the
 * tools of the machine (`host`), an image (`images`) or layers (`layers`). Each returns a `RootRef`, which
 * only this provider reads. `create` makes a sandbox on such a root with podd, or another guest, inside, and
 * returns a `Handle`. The engine stores the handle; `open` turns it into a `Guest`, through which commands
 * run and files move. Through `egress.door` the egress process reaches the only network exit of the sandbox.
 *
 * A sandbox may be paused and resumed (`pausing`), also with its memory on the disk, stopped and started
 * (`stopping`), measured (`metering`), and its files kept (`snapshots`): a snapshot is a root for other
 * sandboxes. A sandbox ends by `destroy`, at its deadline, or when its processes end; `onExit` reports it,
 * and `inspect` and `list` are authoritative. `list` finds everything by the owner's label alone, so a server
 * that lost its database, or died between two steps, leaves nothing behind.
 *
 * Every method may be called at any time, and concurrently for different sandboxes; the engine serialises the
 * calls for one sandbox. Failures are AgentPodErrors; `unavailable` means "could not ask", never "is gone".
 */
import type { Duplex, Readable } from 'node:stream'
import type { CallOptions } from './call.ts'
import type { Capabilities, Check } from './capability.ts'
import type { Guest } from './guest.ts'
import type { OwnerLabel, SandboxId, SnapshotId, VolumeId } from './id.ts'
import type { NetworkLevel } from './network.ts'
import type { Limited, LimitLevel, LimitLevels, Resources } from './resources.ts'
import type { WhenOver } from './spec.ts'

/**
 * What a root file system consists of, in terms of the provider that returned it. Other code stores it as
 * JSON and reads only `over`: shared snapshots whose files lie over the base, lowest first. Each of them was
 * taken of a sandbox whose root was what is below it here, or of a root of the same kind; then it has its own
 * paths. The identity of a sandbox (machine id, host name, hosts) is its own, whatever the snapshots contain.
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
  /**
   * Limits that must be enforced. If one cannot be, `create` returns `unsupported` before anything is made.
   */
  readonly required: readonly Limited[]
  /** Unix milliseconds after which the provider ends the sandbox on its own, as `whenOver` says. */
  readonly deadlineAt: number
  readonly whenOver: WhenOver
  /** The snapshot to start from. `root` is then that of the snapshot, and may have more in `over`. */
  readonly snapshot?: SnapshotId | undefined
  /** Continue the processes of the snapshot, which has their memory. `snapshot` is `memory`. */
  readonly hasMemory?: boolean | undefined
  /**
   * What the sandbox has besides its root. No path is inside another one. A start gets the same mounts as the
   * create. Their content is no part of a snapshot: there is an empty directory instead.
   */
  readonly mounts: readonly Mount[]
  /**
   * `rootMounts`: directories that belong to the root, where a sandbox otherwise has temporary file systems.
   * Builds need that: what a step writes to /tmp is there in the next one.
   */
  readonly rootDirs?: readonly RootDirectory[] | undefined
  /** `docker`: root inside gets what a Docker engine needs. A start gets the same as the create. */
  readonly docker?: boolean | undefined
}

export type RootDirectory = '/tmp' | '/run'

/**
 * A path inside is absolute and has no `.` and `..`. A missing directory is made. `invalid_argument` if the
 * path leads through a symbolic link or a file: the author of the root must not choose where it is mounted.
 * Programs get no more rights from files in a mount (nosuid, nodev).
 */
export type Mount =
  /** `volumes` */
  | { readonly kind: 'volume'; readonly id: VolumeId; readonly path: string; readonly isReadOnly: boolean }
  /**
   * `rootMounts`: another root, read-only; or one directory or file of it, which no link may lead to. Builds
   * mount below `BUILD_MOUNTS` what is no part of the result.
   */
  | {
      readonly kind: 'root'
      readonly root: RootRef
      readonly path: string
      readonly from?: string | undefined
    }
  /**
   * `rootMounts`: an empty temporary file system that everybody inside may write to; or one with the owner
   * and the mode of the directory that it covers. If that is missing, everybody may write to it.
   */
  | {
      readonly kind: 'tmpfs'
      readonly path: string
      readonly sizeBytes?: number | undefined
      readonly takesOwner?: boolean | undefined
    }

/** What is in this directory is left out of images. */
export const BUILD_MOUNTS = '/.agentpod/build'

/** What the engine stores to find the sandbox again. Opaque except for its id. */
export interface Handle {
  readonly sandboxId: SandboxId
  readonly data: Readonly<Record<string, unknown>>
}

export interface Created {
  readonly handle: Handle
  readonly limits: LimitLevels
  /** Variables that the root file system needs, such as PATH. */
  readonly env: Readonly<Record<string, string>>
  /** How its connections reach the egress process. */
  readonly network: NetworkLevel
}

export type Observed =
  /** With the deadline, if the provider enforces one. */
  | { readonly state: 'running'; readonly deadlineAt?: number | undefined }
  /** With the size of its memory on the disk, if it is there and its processes have ended. */
  | { readonly state: 'paused'; readonly savedBytes?: number | undefined }
  | { readonly state: 'stopped' }
  | { readonly state: 'exited'; readonly oomKilled: boolean; readonly expired: boolean }
  | { readonly state: 'absent' }

export interface ListedSandbox {
  readonly handle: Handle
  readonly observed: Observed
}

export interface SandboxExit {
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
  /** What the provider lacks on this machine and how to get it. Slow: it tries things. */
  diagnose(o: CallOptions): Promise<readonly Check[]>
  /**
   * Idempotent on `plan.sandboxId`: a second call finds the sandbox of the first. On failure nothing is left.
   * `not_found` if a part of the root is missing.
   */
  create(plan: CreatePlan, o: CallOptions): Promise<Created>
  /** `absent` is an answer; an outage is an error. */
  inspect(id: SandboxId, o: CallOptions): Promise<Observed>
  /** Everything of this owner that exists, found without our database. */
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly ListedSandbox[]>
  /** A handle on the inside. Does not wait for it to answer. */
  open(handle: Handle): Guest
  /** Idempotent. Resolves only when everything of the sandbox is gone. */
  destroy(id: SandboxId, o: CallOptions): Promise<void>
  /**
   * Removes everything kept for later sandboxes, and ends helper processes. `conflict` while a sandbox or
   * snapshot exists.
   */
  clear(o: CallOptions): Promise<void>
  /**
   * Calls back when a sandbox ends, or is paused at its deadline. Returns the unsubscribe function. It may
   * miss some; `inspect` is authoritative.
   */
  onExit(listener: (exit: SandboxExit) => void): () => void
  /** Releases connections. Sandboxes run on. */
  close(): void

  // Optional groups. Each is present exactly if its level in `Capabilities` says so.

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
  /** `volumes` */
  readonly volumes?: Volumes | undefined
}

export interface Deadlines {
  /** Moves the provider's own deadline. Idempotent. */
  extend(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
}

export interface Pausing {
  /** Freezes every process and keeps its memory. No deadline applies meanwhile. Idempotent. */
  pause(id: SandboxId, o: CallOptions): Promise<void>
  /** Resumes it with a new deadline. Idempotent. */
  resume(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void>
  /** Present exactly if `pause` is `memory`. */
  readonly toDisk?: PausingToDisk | undefined
}

/** The memory of a paused sandbox on the disk, where it outlives a reboot and takes no memory. */
export interface PausingToDisk {
  /**
   * Writes files and memory of one moment to the disk, and ends the processes. For a running sandbox or a
   * paused one. Idempotent. On failure the sandbox continues, or stays paused.
   */
  save(id: SandboxId, o: CallOptions): Promise<{ readonly savedBytes: number }>
  /**
   * Continues the processes of a saved sandbox. Idempotent. On failure it is saved as before; `data_loss` if
   * the memory is damaged, `failed_precondition` if it cannot be used on this machine.
   */
  restore(plan: CreatePlan, o: CallOptions): Promise<Created>
}

export interface Stopping {
  /** Ends every process and keeps the files. Idempotent; also for a sandbox that has exited. */
  stop(id: SandboxId, o: CallOptions): Promise<void>
  /** Starts a stopped sandbox again on its files. Idempotent. On failure it is stopped as before. */
  start(plan: CreatePlan, o: CallOptions): Promise<Created>
}

export interface Metering {
  stats(id: SandboxId, o: CallOptions): Promise<HostStats>
}

export interface Egress {
  /** The socket or stream that outgoing connections arrive at; undefined if the sandbox has no network. */
  door(handle: Handle): EgressDoor | undefined
}

/**
 * `socket`: a unix socket of this machine. The egress process dials it itself, and continues while no server
 * runs. `stream`: the server dials for the egress process.
 */
export type EgressDoor =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'stream'; dial(o: CallOptions): Promise<Duplex> }

/** The tools of this machine, as a base. */
export interface HostBase {
  root(): RootRef
}

/**
 * SECURITY: IM-06. The credentials for registries belong to the user who runs the server. An anonymous pull
 * does not use them.
 */
export interface PullOptions extends CallOptions {
  readonly isAnonymous?: boolean | undefined
}

export interface Images {
  /** Pulls the image if it is missing. `not_found` (`image.unknown`) if the registry does not have it. */
  ensure(ref: string, onProgress: (line: string) => void, o: PullOptions): Promise<Image>
  /** Absent if something else keeps the images, such as a daemon with commands of its own. */
  readonly store?: StoredImages | undefined
}

/** The settings in an image's configuration. */
export interface ImageSettings {
  readonly env: Readonly<Record<string, string>>
  /** The user of its programs: a name or UID[:GID], if the image names one. */
  readonly user?: string | undefined
  readonly workdir?: string | undefined
  /** The program that the image is made for, with its arguments; empty if it names none. */
  readonly command?: readonly string[] | undefined
  /** Ports that its programs listen on, like `8080/tcp`. */
  readonly ports?: readonly string[] | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** The whole configuration as JSON, in the form of the OCI and Docker, if the provider has it. */
  readonly config?: string | undefined
}

/** The reference of the empty image. */
export const EMPTY_IMAGE = 'docker.io/library/scratch:latest'

export interface Image extends ImageSettings {
  /** As requested. */
  readonly ref: string
  readonly digest: string
  readonly root: RootRef
}

/** An image that a provider keeps, under one of its references. */
export interface StoredImage extends Image {
  /** The digest of the manifest for this machine; `digest` may be that of an index. */
  readonly manifestDigest: string
  /** Like `linux/amd64`. */
  readonly platform: string
  /** sha256 of its layers' tar files, lowest first. */
  readonly layers: readonly string[]
  /** Of all its layers, unpacked. Images may share layers. */
  readonly sizeBytes: number
  readonly pulledAt: number
  readonly usedAt: number
}

/** Files and settings that become an image. */
export interface ImageSource {
  readonly root: RootRef
  readonly settings: ImageSettings
  /**
   * For snapshots of the root: directories that were made to mount on, and are left out if they are empty.
   */
  readonly mountPoints?: ReadonlyMap<SnapshotId, readonly string[]> | undefined
}

/** Images that the provider keeps itself. */
export interface StoredImages {
  /** Asks the registry what a tag stands for now, and gets what is missing. */
  pull(ref: string, onProgress: (line: string) => void, o: PullOptions): Promise<StoredImage>
  list(o: CallOptions): Promise<readonly StoredImage[]>
  /** Removes a reference, and the layers that no other image has. `not_found` if unknown. */
  remove(ref: string, o: CallOptions): Promise<StoredImage>
  /** Sends an image to a registry. The same files and settings give the same digest. */
  push(
    source: ImageSource,
    ref: string,
    onProgress: (line: string) => void,
    o: CallOptions,
  ): Promise<{ readonly digest: string }>
  /** Stores files under a reference on this provider, as if they had been pulled. */
  save(
    source: ImageSource,
    ref: string,
    onProgress: (line: string) => void,
    o: CallOptions,
  ): Promise<StoredImage>
  /** An OCI layout directory with the image, as a tar stream. */
  layout(source: ImageSource, o: CallOptions): Promise<Readable>
  /** Gets a Feature by the same rules as images. `ref` names an artifact, or is the address of a tarball. */
  feature?(ref: string, o: PullOptions): Promise<FetchedFeature>
}

/** A Feature of development containers. */
export interface FetchedFeature {
  /** Of its manifest, or of the tarball. */
  readonly digest: string
  /** Its metadata as JSON. Nothing about it is checked except its size. */
  readonly metadata: string
  /** A tar file of its files, directories and inner links. It is unpacked in a sandbox only. */
  readonly archive: Buffer
}

/** A snapshot as the provider stores it. `sizeBytes` counts only its own files, not what they lie on. */
export interface StoredSnapshot {
  readonly sizeBytes: number
  readonly root: RootRef
  /** The size of its processes' memory; undefined if it has files only. */
  readonly memoryBytes?: number | undefined
}

export interface TakeSnapshotOptions extends CallOptions {
  /**
   * Keep the memory of its processes too, of the same moment. `unsupported` if the provider cannot;
   * `failed_precondition` if these processes cannot be saved. The sandbox continues in every case.
   */
  readonly hasMemory?: boolean | undefined
}

/**
 * INVARIANT: a file that is neither in `paths` nor in a directory in `paths` has the content and the mode
 * that it has in the snapshot, whatever programs inside did to hide a change.
 */
export interface ChangesSince {
  readonly snapshot: SnapshotId
  /** Relative to the directory, without control characters. */
  readonly paths: readonly string[]
}

/** Files of sandboxes at one moment. */
export interface Snapshots {
  /**
   * Idempotent on `id`. A running sandbox stands still for a moment and continues; `unsupported`, before
   * anything changes, if that is not possible. On failure nothing is left, and the sandbox is unchanged.
   */
  create(
    id: SnapshotId,
    sandboxId: SandboxId,
    owner: OwnerLabel,
    o: TakeSnapshotOptions,
  ): Promise<StoredSnapshot>
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly SnapshotId[]>
  /**
   * Idempotent. Sandboxes made from it keep their files. `conflict` (`snapshot.used`) while the root of a
   * sandbox, running or not, or of another snapshot has it in `over`.
   */
  remove(id: SnapshotId, o: CallOptions): Promise<void>
  /**
   * What may differ below a directory inside a sandbox since it was created from a snapshot. Undefined if
   * that is not known, or is too much to list. Absent if the provider can never tell without reading every
   * file.
   */
  changes?(id: SandboxId, directory: string, o: CallOptions): Promise<ChangesSince | undefined>
  /** Its own files as one stream. */
  export(id: SnapshotId, o: CallOptions): Promise<Packed>
  /**
   * The reverse of `export`. `data_loss` if the content does not match `digest`, `not_found` if something
   * that the root names is missing; nothing is left then. Idempotent on `id`.
   */
  import(
    id: SnapshotId,
    owner: OwnerLabel,
    packed: Pick<Packed, 'digest' | 'content'> & { readonly root: RootRef },
    o: CallOptions,
  ): Promise<StoredSnapshot>
}

/** The content of a snapshot or layer. The receiver reads it to its end or destroys it. */
export interface Packed {
  /** sha256 of the content. */
  readonly digest: string
  readonly sizeBytes: number
  readonly content: Readable
}

/** A store of immutable file-system layers at the provider. */
export interface Layers {
  has(digest: string, o: CallOptions): Promise<boolean>
  /** Imports a tar stream whose sha256 is `digest`. Idempotent. `data_loss` if the content does not match. */
  import(digest: string, content: Readable, o: CallOptions): Promise<void>
  /** Idempotent. `conflict` while a sandbox or snapshot uses it, directly or through other snapshots. */
  remove(digest: string, o: CallOptions): Promise<void>
  /** Importing the content again gives a layer with the same files; its name is the digest of the content. */
  export(digest: string, o: CallOptions): Promise<Packed>
  /** A root of these layers, lowest first. */
  root(digests: readonly string[]): RootRef
  /** The layers that a root consists of, lowest first; none for a root of another kind. */
  of(root: RootRef): readonly string[]
}

/** A volume as the provider stores it. */
export interface StoredVolume {
  /** Whether its size is enforced. */
  readonly limit: LimitLevel
}

export interface VolumeStats {
  readonly usedBytes: number
}

/** Directories that outlive sandboxes. Several sandboxes may mount one at the same time. */
export interface Volumes {
  /**
   * An empty volume of at most `sizeBytes`; 0 for no limit. Idempotent on `id`. On failure nothing is left.
   * When a sandbox mounts it for the first time, it takes over the owner and mode of the directory that it
   * covers. If there was none, every user inside may write to it.
   */
  create(id: VolumeId, owner: OwnerLabel, sizeBytes: number, o: CallOptions): Promise<StoredVolume>
  list(owner: OwnerLabel, o: CallOptions): Promise<readonly VolumeId[]>
  /** Idempotent. `conflict` (`volume.used`) while a sandbox, running or not, mounts it. */
  remove(id: VolumeId, o: CallOptions): Promise<void>
  stats(id: VolumeId, o: CallOptions): Promise<VolumeStats>
}
