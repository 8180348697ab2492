/** Ends a server that nobody uses. */
import type { Log } from '../telemetry/log.ts'
import { systemClock } from '../util/clock.ts'

const IDLE_CHECK_MS = 5000

export class IdleExit {
  readonly #idleExitMs: number
  readonly #log: Log
  #lastActivity = systemClock.now()

  constructor(idleExitMs: number, log: Log) {
    this.#idleExitMs = idleExitMs
    this.#log = log
  }

  readonly onActivity = (): void => {
    this.#lastActivity = systemClock.now()
  }

  /** Calls `leave` after `idleExitMs` without activity and with nothing busy; never if that is 0. */
  watch(o: { isBusy(): boolean; leave(): Promise<void> }): void {
    systemClock.after(IDLE_CHECK_MS, () => {
      if (o.isBusy()) this.onActivity()
      if (this.#idleExitMs > 0 && systemClock.now() - this.#lastActivity >= this.#idleExitMs) {
        this.#log.info('leaving: no sandbox is running and no request came')
        void o.leave()
        return
      }
      this.watch(o)
    })
  }
}
