/** Limits the open and the new connections of one sandbox, so that it cannot crowd out others. */
import type { Clock } from '../../util/clock.ts'

export const MOST_OPEN = 512
export const PER_SECOND = 64
export const BURST = 256

export class ConnectionLimit {
  readonly #clock: Clock
  #tokens = BURST
  #at: number
  open = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#at = clock.now()
  }

  /** Whether one more connection is allowed; if so, the caller ends it with `leave`. */
  enter(): boolean {
    const now = this.#clock.now()
    this.#tokens = Math.min(BURST, this.#tokens + (Math.max(0, now - this.#at) * PER_SECOND) / 1000)
    this.#at = now
    if (this.open >= MOST_OPEN || this.#tokens < 1) return false
    this.#tokens--
    this.open++
    return true
  }

  leave(): void {
    this.open--
  }
}
