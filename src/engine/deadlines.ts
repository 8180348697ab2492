/** A timer for each running sandbox, set to the moment its time is up. The sweep is there for what a timer misses. */
import type { SandboxId } from '../core/id.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Clock } from '../util/clock.ts'

interface Timer {
  readonly at: number
  readonly cancel: () => void
}

export class Deadlines {
  readonly #clock: Clock
  readonly #onTime: (id: SandboxId) => void
  readonly #timers = new Map<SandboxId, Timer>()

  constructor(clock: Clock, onTime: (id: SandboxId) => void) {
    this.#clock = clock
    this.#onTime = onTime
  }

  /** Sets, moves or ends the timer of a sandbox: as it is in the record that was just written. */
  follow({ id, state, deadlineAt }: Sandbox): void {
    const isWanted = state === 'running'
    const before = this.#timers.get(id)
    if (before && isWanted && before.at === deadlineAt) return
    before?.cancel()
    this.#timers.delete(id)
    if (isWanted) this.#set(id, deadlineAt)
  }

  #set(id: SandboxId, at: number): void {
    const cancel = this.#clock.after(at - this.#clock.now(), () => {
      // A timer may come a moment before the clock says so.
      if (this.#clock.now() < at) return this.#set(id, at)
      this.#timers.delete(id)
      this.#onTime(id)
    })
    this.#timers.set(id, { at, cancel })
  }

  /** Ends every timer. */
  close(): void {
    for (const { cancel } of this.#timers.values()) cancel()
    this.#timers.clear()
  }
}
