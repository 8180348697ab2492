/** Watches the providers in use: sweeps each of them now and every few seconds, and listens to its events. */
import type { SnapshotId, VolumeId } from '../../core/id.ts'
import type { Provider } from '../../core/provider.ts'
import { ignore } from '../../telemetry/log.ts'
import type { Context } from '../context.ts'
import { onSandboxExit, Sweeper } from '../lifecycle/sweep.ts'

const SWEEP_EVERY_MS = 3000

export class ProviderWatch {
  readonly #ctx: Context
  /** Snapshots of an earlier server. */
  readonly #earlier: ReadonlySet<SnapshotId>
  readonly #earlierVolumes: ReadonlySet<VolumeId>
  /** Ends the watch of each provider. */
  readonly #ends = new Map<string, () => void>()

  constructor(ctx: Context) {
    this.#ctx = ctx
    this.#earlier = new Set(ctx.snapshotRegistry.all().map(({ id }) => id))
    this.#earlierVolumes = new Set(ctx.volumeRegistry.all().map(({ id }) => id))
  }

  /** Resolves after the first sweep, even if that failed. */
  async add(provider: Provider): Promise<void> {
    const { log, clock } = this.#ctx
    const sweeper = new Sweeper(this.#ctx, provider, {
      snapshots: this.#earlierOf(provider),
      volumes: this.#earlierVolumesOf(provider),
    })
    const unsubscribe = this.#listen(provider)
    let isOver = false
    let cancel = (): void => undefined
    this.#ends.set(provider.name, () => {
      isOver = true
      unsubscribe()
      cancel()
    })
    const round = async (): Promise<void> => {
      try {
        if (sweeper.isDue()) await sweeper.sweep()
      } catch (error) {
        ignore(log, error, `a sweep of ${provider.name} failed; the next one tries again`)
      }
      if (!isOver) cancel = clock.after(SWEEP_EVERY_MS, () => void round())
    }
    await round()
  }

  end(): void {
    for (const end of this.#ends.values()) end()
    this.#ends.clear()
  }

  /** If a provider cannot be listened to, its sweeps notice what has ended. */
  #listen(provider: Provider): () => void {
    const { log } = this.#ctx
    try {
      return provider.onExit((exit) => {
        onSandboxExit(this.#ctx, exit).catch((error) => ignore(log, error, 'the next sweep notices it'))
      })
    } catch (error) {
      ignore(log, error, `cannot listen to ${provider.name}; its sweeps notice what has ended`)
      return () => undefined
    }
  }

  #earlierVolumesOf({ name }: Provider): Set<VolumeId> {
    const ours = this.#ctx.volumeRegistry
      .all()
      .filter(({ id, provider }) => provider === name && this.#earlierVolumes.has(id))
    return new Set(ours.map(({ id }) => id))
  }

  #earlierOf({ name }: Provider): Set<SnapshotId> {
    const ours = this.#ctx.snapshotRegistry
      .all()
      .filter(({ id, provider }) => provider === name && this.#earlier.has(id))
    return new Set(ours.map(({ id }) => id))
  }
}
