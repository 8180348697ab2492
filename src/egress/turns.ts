/** Places that all sandboxes share, handed out so that no one of them, nor a few together, can keep the others waiting. */

export interface TurnsOptions {
  readonly places: number
}

interface Waiting {
  readonly asker: object
  readonly go: (leave: () => void) => void
}

export class Turns {
  readonly #held = new Map<object, number>()
  #waiting: Waiting[] = []
  #free: number

  constructor({ places }: TurnsOptions) {
    this.#free = places
  }

  /** Resolves when there is a place, with what gives it back. How many wait is for the askers to bound. */
  enter(asker: object): Promise<() => void> {
    return new Promise((go) => {
      this.#waiting.push({ asker, go })
      this.#serve()
    })
  }

  /**
   * Whoever holds least goes first, and among equals who came first. An asker has a place only while more are free than it holds: slow lookups of a
   * few cannot fill them all, and one that comes new finds one.
   */
  #serve(): void {
    for (;;) {
      const next = this.#next()
      if (!next || this.#holds(next.asker) >= this.#free) return
      this.#waiting = this.#waiting.filter((one) => one !== next)
      this.#free--
      this.#held.set(next.asker, this.#holds(next.asker) + 1)
      next.go(() => this.#leave(next.asker))
    }
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined
    for (const one of this.#waiting) if (!next || this.#holds(one.asker) < this.#holds(next.asker)) next = one
    return next
  }

  #leave(asker: object): void {
    const held = this.#holds(asker) - 1
    if (held > 0) this.#held.set(asker, held)
    else this.#held.delete(asker)
    this.#free++
    this.#serve()
  }

  #holds(asker: object): number {
    return this.#held.get(asker) ?? 0
  }
}
