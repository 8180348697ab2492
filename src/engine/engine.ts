/** The sandbox lifecycle. The API translates requests into calls of these operations, grouped by noun. */
import type { AuditEntry } from '../core/audit.ts'
import type { SandboxId } from '../core/id.ts'
import { ignore } from '../telemetry/log.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import type { Context, EngineParts } from './context.ts'
import { EventOperations } from './event-operations.ts'
import { onMemberWritten } from './groups/follow-main.ts'
import { recoverGroups } from './groups/group.ts'
import { GroupOperations } from './groups/group-operations.ts'
import { GroupRegistry } from './groups/group-registry.ts'
import { ImageOperations } from './images/image-operations.ts'
import { DeadlineTimers } from './lifecycle/deadline-timers.ts'
import { destroyAll } from './lifecycle/destroy-all.ts'
import { GuestOperations } from './lifecycle/guest-operations.ts'
import { SandboxOperations } from './lifecycle/sandbox-operations.ts'
import { SandboxRegistry } from './lifecycle/sandbox-registry.ts'
import { onDeadline, recoverRecords } from './lifecycle/sweep.ts'
import { Authorities } from './network/authorities.ts'
import { NetworkOperations } from './network/network-operations.ts'
import { SecretOperations } from './network/secret-operations.ts'
import { ProviderOperations } from './providers/provider-operations.ts'
import { ProviderRegistry } from './providers/provider-registry.ts'
import { ProviderWatch } from './providers/provider-watch.ts'
import { LayerOperations } from './snapshots/layer-operations.ts'
import { SnapshotOperations } from './snapshots/snapshot-operations.ts'
import { SnapshotRegistry } from './snapshots/snapshot-registry.ts'
import { UsageOperations } from './usage.ts'
import { VolumeOperations } from './volumes/volume-operations.ts'
import { VolumeRegistry } from './volumes/volume-registry.ts'

/** How long `open` waits for providers to report the sandboxes of an earlier server. */
const FIRST_SWEEP_MS = 5000

export class Engine {
  readonly #ctx: Context
  readonly #watch: ProviderWatch
  readonly #timers: DeadlineTimers
  readonly sandboxes: SandboxOperations
  readonly guests: GuestOperations
  readonly events: EventOperations
  readonly snapshots: SnapshotOperations
  readonly layers: LayerOperations
  readonly images: ImageOperations
  readonly volumes: VolumeOperations
  readonly groups: GroupOperations
  readonly networks: NetworkOperations
  readonly secrets: SecretOperations
  readonly providers: ProviderOperations
  readonly usage: UsageOperations
  #isClosed = false

  constructor(parts: EngineParts) {
    this.#timers = new DeadlineTimers(parts.clock, (id) => this.#onDeadline(id))
    this.#ctx = {
      ...parts,
      providers: new ProviderRegistry({ ...parts, uses: parts.sandboxes }),
      registry: new SandboxRegistry({
        ...parts,
        onWritten: (sandbox) => {
          this.#timers.follow(sandbox)
          onMemberWritten(this.#ctx, sandbox)
        },
      }),
      snapshotRegistry: new SnapshotRegistry(parts.snapshots),
      volumeRegistry: new VolumeRegistry(parts.volumes),
      groupRegistry: new GroupRegistry(parts.groups),
      connections: new Map(),
      pausedConnections: new Map(),
      failedSaves: new Map(),
      startingServices: new Map(),
      lock: new KeyedLock(),
      authorities: new Authorities(() => ({ now: parts.clock.now(), random: parts.random })),
    }
    this.#watch = new ProviderWatch(this.#ctx)
    this.sandboxes = new SandboxOperations(this.#ctx)
    this.guests = new GuestOperations(this.#ctx)
    this.events = new EventOperations(this.#ctx)
    this.snapshots = new SnapshotOperations(this.#ctx)
    this.layers = new LayerOperations(this.#ctx)
    this.images = new ImageOperations(this.#ctx)
    this.volumes = new VolumeOperations(this.#ctx)
    this.groups = new GroupOperations(this.#ctx)
    this.networks = new NetworkOperations(this.#ctx)
    this.secrets = new SecretOperations(this.#ctx)
    this.providers = new ProviderOperations(this.#ctx)
    this.usage = new UsageOperations(this.#ctx)
  }

  /** Adopts or removes the sandboxes of an earlier server, then keeps watch. */
  async open(): Promise<void> {
    const { providers, registry, clock } = this.#ctx
    const first: Promise<void>[] = []
    providers.onUsed = (provider) => first.push(this.#watch.add(provider))
    providers.use(providers.default)
    await recoverRecords(this.#ctx)
    recoverGroups(this.#ctx)
    // A provider that does not answer delays the start only this long.
    const waited = Promise.withResolvers<void>()
    const cancel = clock.after(FIRST_SWEEP_MS, waited.resolve)
    await Promise.race([Promise.all(first), waited.promise])
    cancel()
    for (const sandbox of registry.existing()) this.#timers.follow(sandbox)
    providers.onUsed = (provider) => void this.#watch.add(provider)
  }

  /** Stops watching. Sandboxes run on until their deadlines, which provider and guest enforce. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const { providers, connections, pausedConnections } = this.#ctx
    providers.onUsed = () => undefined
    this.#watch.end()
    this.#timers.close()
    for (const { guest } of [...connections.values(), ...pausedConnections.values()]) guest.close()
    // Last, because the connections to sandboxes go through the providers.
    providers.close()
  }

  /**
   * Destroys every sandbox, snapshot and volume, and everything that providers keep for later sandboxes, and
   * stops watching. If something could not be removed, the error names it, and the watch continues.
   */
  async destroyAll(): Promise<void> {
    const { providers } = this.#ctx
    // A sweep would restart the helper processes that a provider ends here.
    const { onUsed } = providers
    providers.onUsed = () => undefined
    this.#watch.end()
    try {
      await destroyAll(this.#ctx)
    } catch (error) {
      providers.onUsed = onUsed
      for (const provider of providers.used) onUsed(provider)
      throw error
    }
    this.close()
  }

  /** Oldest first. */
  auditLog(o: { readonly after: number; readonly limit: number }): AuditEntry[] {
    return this.#ctx.audit?.list(o) ?? []
  }

  #onDeadline(id: SandboxId): void {
    if (this.#isClosed) return
    onDeadline(this.#ctx, id).catch((error) => ignore(this.#ctx.log, error, 'the next sweep tries again'))
  }
}
