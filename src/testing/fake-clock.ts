import type { Clock } from '../util/clock.ts'

interface Timer {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

/** A clock that only moves when a test moves it. */
export class FakeClock implements Clock {
  #now: number
  #order = 0
  readonly #timers = new Set<Timer>()

  constructor(now = Date.UTC(2030, 0, 1)) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, ms), order: this.#order++, fn }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** The number of pending timers. */
  get waiting(): number {
    return this.#timers.size
  }

  /** Advances by `ms`, firing due timers in order; the effects of each finish before the next fires. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await settled()
    for (;;) {
      const due = this.#next()
      if (!due || due.at > until) break
      this.#timers.delete(due)
      this.#now = Math.max(this.#now, due.at)
      due.fn()
      await settled()
    }
    this.#now = until
  }

  /** Sets the wall clock forward: timers due in the meantime fire once, and late. */
  async jump(ms: number): Promise<void> {
    this.#now += ms
    await this.advance(0)
  }

  #next(): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) {
      if (!first || timer.at < first.at || (timer.at === first.at && timer.order < first.order)) first = timer
    }
    return first
  }
}

/** Runs the event loop often enough for pending promises and streams to settle. */
const TURNS = 4

export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve))
}
