import type { Clock } from '../util/clock.ts'

interface Timer {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

/** A clock that stands still until it is told to move. */
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

  /** How many timers wait. */
  get waiting(): number {
    return this.#timers.size
  }

  /** Moves on by `ms`, firing what falls due in order and letting what each sets off run before the next. */
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

  /** The wall clock is set forward: what falls due in the meantime happens once, and late. */
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

/** Enough turns of the event loop for chains of promises and streams to come to rest. */
const TURNS = 4

export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve))
}
