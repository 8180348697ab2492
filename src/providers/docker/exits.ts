/** News of containers that end. One stream of events for all listeners, made again whenever it breaks. */
import { isSandboxId } from '../../core/id.ts'
import type { Exit } from '../../core/provider.ts'
import { sleep, systemClock } from '../../util/clock.ts'
import { EVENT } from './answers.ts'
import type { Containers } from './containers.ts'
import type { Daemon } from './daemon.ts'
import { OWNER, SANDBOX } from './names.ts'
import { EXPIRED, endingOf, sandboxOf } from './observed.ts'
import { jsonLines } from './progress.ts'

const TRY_AGAIN_MS = 1000
const CALL = { timeoutMs: 10_000 }
const FILTERS = JSON.stringify({ type: ['container'], event: ['die'], label: [OWNER, SANDBOX] })

export class Exits {
  readonly #daemon: Daemon
  readonly #containers: Containers
  readonly #listeners = new Set<(exit: Exit) => void>()
  #following: AbortController | undefined
  #isUsed: boolean

  constructor(daemon: Daemon, containers: Containers) {
    this.#isUsed = false
    this.#daemon = daemon
    this.#containers = containers
    // A daemon that nobody uses is not followed.
    daemon.onConnected(() => {
      this.#isUsed = true
      this.#begin()
    })
  }

  listen(listener: (exit: Exit) => void): () => void {
    this.#listeners.add(listener)
    this.#begin()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.close()
    }
  }

  close(): void {
    this.#following?.abort()
    this.#following = undefined
  }

  #begin(): void {
    if (this.#following || !this.#isUsed || this.#listeners.size === 0) return
    this.#following = new AbortController()
    void this.#follow(this.#following.signal)
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let since = Math.floor(systemClock.now() / 1000)
    while (!signal.aborted) {
      try {
        const query = { filters: FILTERS, since: String(since) }
        const stream = await this.#daemon.stream({ method: 'GET', path: '/events', query }, CALL, signal)
        for await (const value of jsonLines(stream)) {
          const event = EVENT.safeParse(value)
          if (!event.success) continue
          since = event.data.time ?? since
          await this.#tell(event.data.Actor.ID, event.data.Actor.Attributes)
        }
      } catch {
        // The daemon is gone, or this was closed. Whoever listens may miss an exit; `inspect` is the truth.
      }
      await sleep(systemClock, TRY_AGAIN_MS, signal).catch(() => undefined)
    }
  }

  async #tell(container: string, attributes: Readonly<Record<string, string>>): Promise<void> {
    if (this.#containers.isEnding(container) || !isSandboxId(attributes[SANDBOX] ?? '')) return
    const found = await this.#containers.look(container, CALL).catch(() => undefined)
    const ending = found
      ? endingOf(found)
      : { oomKilled: false, expired: attributes['exitCode'] === String(EXPIRED) }
    const exit = { sandboxId: sandboxOf(attributes), ...ending }
    for (const listener of this.#listeners) listener(exit)
  }
}
