import type { ErrorCode } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { OwnerLabel, SandboxId } from '../core/id.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { BaseWish } from '../core/recipe.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { EnvdServer } from '../guest/envd-server.ts'
import type { AuditStore } from '../store/audit.ts'
import type { EventStore } from '../store/events.ts'
import type { SandboxStore } from '../store/sandboxes.ts'
import type { SnapshotStore } from '../store/snapshots.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import type { KeyedLock } from '../util/keyed-lock.ts'
import type { Random } from '../util/random.ts'
import type { Album } from './album.ts'
import type { Authorities } from './authorities.ts'
import type { Ledger } from './ledger.ts'
import type { Providers } from './providers.ts'
import type { Quota } from './quota.ts'
import type { NetworkParts } from './way-out.ts'

/** A base that sandboxes can begin with, and what it says about itself. */
export interface ReadyBase {
  /** Of an image: what its reference stands for. */
  readonly digest?: string | undefined
  readonly root: RootRef
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

/** Makes the root file system of a base ready on a provider; slow the first time, then at once. */
export interface Roots {
  ensure(base: BaseWish, provider: Provider, onProgress: (line: string) => void): Promise<ReadyBase>
}

export interface AddedInside {
  /** Those that were asked for go before. */
  readonly variables: Readonly<Record<string, string>>
  readonly envd: boolean
}

/** What the engine is given. */
export interface EngineParts {
  readonly sandboxes: SandboxStore
  readonly snapshots: SnapshotStore
  readonly events: EventStore
  /** The first one is taken where nobody names one. */
  readonly providers: readonly Provider[]
  /** Another one to take then. */
  readonly defaultProvider?: string | undefined
  readonly roots: Roots
  readonly owner: OwnerLabel
  /** Where archives wait until they are whole. */
  readonly tmpDir: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Where it is written who asked for what; nowhere when left out. */
  readonly audit?: AuditStore | undefined
  readonly quota?: Quota | undefined
  /** The way out of sandboxes; they have none when it is left out. */
  readonly network?: NetworkParts | undefined
  /** What front doors add to the inside of a sandbox, at every start. */
  addedInside?(sandbox: Sandbox): AddedInside
  /** Told how long each create took and how it ended. */
  onCreated?(seconds: number, outcome: 'ok' | ErrorCode): void
}

/** A running sandbox as this process holds it. `ended` aborts when it is stopped or destroyed, and cuts every stream. */
export interface Live {
  readonly guest: Guest
  readonly ended: AbortController
  /** Speaks envd's protocol where the guest itself does not. */
  readonly envd: EnvdServer
}

/** What the engine's verbs share. */
export interface Context extends Omit<EngineParts, 'providers'> {
  readonly providers: Providers
  readonly ledger: Ledger
  readonly live: Map<SandboxId, Live>
  /** The ways into paused sandboxes, whose streams stay open. */
  readonly frozen: Map<SandboxId, Live>
  readonly album: Album
  readonly lock: KeyedLock
  readonly authorities: Authorities
}

/** Asked again under the lock, for work that was decided upon before it: what it rests on may have changed. */
export type StillWanted = () => boolean | Promise<boolean>
