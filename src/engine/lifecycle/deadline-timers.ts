/** A timer per running sandbox, for its deadline. The sweep catches what a timer misses. */
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Clock } from '../../util/clock.ts'

interface Timer {
  readonly at: number
  readonly cancel: () => void
}

export class DeadlineTimers {
  readonly #clock: Clock
  readonly #onTime: (id: SandboxId) => void
  readonly #timers = new Map<SandboxId, Timer>()

  constructor(clock: Clock, onDeadline: (id: SandboxId) => void) {
    this.#clock = clock
    this.#onTime = onDeadline
  }

  /** Sets, moves or cancels the timer of a sandbox whose record was just written. */
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
      // A timer may fire slightly before the deadline.
      if (this.#clock.now() < at) return this.#set(id, at)
      this.#timers.delete(id)
      this.#onTime(id)
    })
    this.#timers.set(id, { at, cancel })
  }

  /** Cancels every timer. */
  close(): void {
    for (const { cancel } of this.#timers.values()) cancel()
    this.#timers.clear()
  }
}
