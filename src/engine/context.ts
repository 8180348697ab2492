import type { Isolation } from '../core/capability.ts'
import type { ErrorCode } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { OwnerLabel, SandboxId } from '../core/id.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { BaseWish } from '../core/recipe.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { EnvdServer } from '../guest/envd/server.ts'
import type { AuditStore } from '../store/audit.ts'
import type { EventStore } from '../store/events.ts'
import type { GroupStore } from '../store/groups.ts'
import type { SandboxStore } from '../store/sandboxes.ts'
import type { SnapshotStore } from '../store/snapshots.ts'
import type { VolumeStore } from '../store/volumes.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import type { KeyedLock } from '../util/keyed-lock.ts'
import type { Random } from '../util/random.ts'
import type { BandwidthLimit } from '../util/stream/bandwidth-limit.ts'
import type { GroupRegistry } from './groups/group-registry.ts'
import type { Quota } from './lifecycle/quota.ts'
import type { SandboxRegistry } from './lifecycle/sandbox-registry.ts'
import type { Authorities } from './network/authorities.ts'
import type { NetworkParts } from './network/network-parts.ts'
import type { ProviderRegistry } from './providers/provider-registry.ts'
import type { SnapshotRegistry } from './snapshots/snapshot-registry.ts'
import type { VolumeRegistry } from './volumes/volume-registry.ts'

/** A base that is ready for sandboxes, with the defaults that it sets. */
export interface PreparedBase {
  /** For an image: the digest that its reference resolved to. */
  readonly digest?: string | undefined
  readonly root: RootRef
  /** Variables that the base sets. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

/** Prepares the root file system of a base on a provider. Slow the first time, immediate afterwards. */
export interface Roots {
  ensure(base: BaseWish, provider: Provider, onProgress: (line: string) => void): Promise<PreparedBase>
}

export interface AddedInside {
  /** Variables of the request take precedence over these. */
  readonly variables: Readonly<Record<string, string>>
  readonly envd: boolean
}

/** The dependencies of the engine. */
export interface EngineParts {
  readonly sandboxes: SandboxStore
  readonly snapshots: SnapshotStore
  readonly volumes: VolumeStore
  readonly groups: GroupStore
  readonly events: EventStore
  /** The first one is the default. */
  readonly providers: readonly Provider[]
  /** Makes another one the default. */
  readonly defaultProvider?: string | undefined
  readonly roots: Roots
  readonly owner: OwnerLabel
  /** Holds snapshot archives while they are received. */
  readonly tmpDir: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** The audit log; without it nothing is audited. */
  readonly audit?: AuditStore | undefined
  readonly quota?: Quota | undefined
  /** Egress of sandboxes; without it they have no network. */
  readonly network?: NetworkParts | undefined
  /** The lowest isolation of what an owner creates; any if left out. A request can only raise it. */
  leastIsolation?(owner: string): Isolation | undefined
  /** What the API adds to the inside of a sandbox at every start. */
  addedInside?(sandbox: Sandbox): AddedInside
  /** Called with the duration and the outcome of each create. */
  onCreated?(seconds: number, outcome: 'ok' | ErrorCode): void
}

/**
 * The server's connection to a running sandbox. `ended` aborts when the sandbox is stopped or destroyed, and
 * cuts every stream.
 */
export interface GuestConnection {
  readonly guest: Guest
  /** For streams to its ports; absent without a limit. */
  readonly bandwidthLimit?: BandwidthLimit | undefined
  readonly ended: AbortController
  /** Answers envd's protocol if the guest itself does not speak it. */
  readonly envd: EnvdServer
}

/** What the operations of the engine share. */
export interface Context extends Omit<EngineParts, 'providers'> {
  readonly providers: ProviderRegistry
  readonly registry: SandboxRegistry
  readonly connections: Map<SandboxId, GuestConnection>
  /** Connections to paused sandboxes; their streams stay open. */
  readonly pausedConnections: Map<SandboxId, GuestConnection>
  /** When the memory of paused sandboxes could last not be saved, as their lifetime says. */
  readonly failedSaves: Map<SandboxId, number>
  /** Sandboxes whose services are starting. Aborting one ends the wait, so that `destroy` need not wait. */
  readonly startingServices: Map<SandboxId, AbortController>
  readonly snapshotRegistry: SnapshotRegistry
  readonly volumeRegistry: VolumeRegistry
  readonly groupRegistry: GroupRegistry
  readonly lock: KeyedLock
  readonly authorities: Authorities
}

/**
 * Called again under the lock, because the reason for the work may have changed while it waited for the lock.
 */
export type StillWanted = () => boolean | Promise<boolean>
