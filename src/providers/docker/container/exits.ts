/** Reports containers that exit: one event stream for all listeners, reopened whenever it breaks. */
import { isSandboxId } from '../../../core/id.ts'
import type { SandboxExit } from '../../../core/provider.ts'
import { sleep, systemClock } from '../../../util/clock.ts'
import type { Daemon } from '../daemon/daemon.ts'
import { jsonLines } from '../daemon/progress.ts'
import { EVENT } from '../daemon/responses.ts'
import { OWNER_LABEL, SANDBOX_LABEL } from '../names.ts'
import { endingOf, LEASE_EXPIRED_EXIT, sandboxOf } from './container-state.ts'
import type { Containers } from './containers.ts'

const TRY_AGAIN_MS = 1000
const CALL = { timeoutMs: 10_000 }
const FILTERS = JSON.stringify({ type: ['container'], event: ['die'], label: [OWNER_LABEL, SANDBOX_LABEL] })

export class ContainerExits {
  readonly #daemon: Daemon
  readonly #containers: Containers
  readonly #listeners = new Set<(exit: SandboxExit) => void>()
  #following: AbortController | undefined
  #isUsed: boolean

  constructor(daemon: Daemon, containers: Containers) {
    this.#isUsed = false
    this.#daemon = daemon
    this.#containers = containers
    // Do not follow a daemon that has no sandboxes of ours.
    daemon.onConnected(() => {
      this.#isUsed = true
      this.#begin()
    })
  }

  listen(listener: (exit: SandboxExit) => void): () => void {
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
        // The daemon is gone, or this was closed. A listener may miss an exit; `inspect` is authoritative.
      }
      await sleep(systemClock, TRY_AGAIN_MS, signal).catch(() => undefined)
    }
  }

  async #tell(container: string, attributes: Readonly<Record<string, string>>): Promise<void> {
    if (this.#containers.isEnding(container) || !isSandboxId(attributes[SANDBOX_LABEL] ?? '')) return
    const found = await this.#containers.look(container, CALL).catch(() => undefined)
    const ending = found
      ? endingOf(found)
      : { oomKilled: false, expired: attributes['exitCode'] === String(LEASE_EXPIRED_EXIT) }
    const exit = { sandboxId: sandboxOf(attributes), ...ending }
    for (const listener of this.#listeners) listener(exit)
  }
}
