/** Watches over the providers that are in use: each is swept now and every few seconds, for itself, and listened to. */
import type { SnapshotId } from '../core/id.ts'
import type { Provider } from '../core/provider.ts'
import { ignore } from '../telemetry/log.ts'
import type { Context } from './context.ts'
import { exited, Sweeper } from './sweep.ts'

const SWEEP_EVERY_MS = 3000

export class Watch {
  readonly #ctx: Context
  /** Snapshots of an earlier life of the server. */
  readonly #earlier: ReadonlySet<SnapshotId>
  /** What ends the watch over each provider. */
  readonly #ends = new Map<string, () => void>()

  constructor(ctx: Context) {
    this.#ctx = ctx
    this.#earlier = new Set(ctx.album.all().map(({ id }) => id))
  }

  /** Resolves when the first sweep is over, also where it failed. */
  async add(provider: Provider): Promise<void> {
    const { log, clock } = this.#ctx
    const sweeper = new Sweeper(this.#ctx, provider, this.#earlierOf(provider))
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

  /** Where a provider cannot be listened to, its sweeps see what has ended. */
  #listen(provider: Provider): () => void {
    const { log } = this.#ctx
    try {
      return provider.onExit((exit) => {
        exited(this.#ctx, exit).catch((error) => ignore(log, error, 'the next sweep sees it'))
      })
    } catch (error) {
      ignore(log, error, `${provider.name} cannot be listened to; its sweeps see what has ended`)
      return () => undefined
    }
  }

  #earlierOf({ name }: Provider): Set<SnapshotId> {
    const ours = this.#ctx.album
      .all()
      .filter(({ id, provider }) => provider === name && this.#earlier.has(id))
    return new Set(ours.map(({ id }) => id))
  }
}
