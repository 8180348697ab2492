/** A semaphore that sandboxes share. Neither one sandbox nor a few together can block the others. */

export interface FairSemaphoreOptions {
  readonly places: number
}

interface Waiting {
  readonly asker: object
  readonly start: (release: () => void) => void
}

export class FairSemaphore {
  readonly #held = new Map<object, number>()
  #waiting: Waiting[] = []
  #free: number

  constructor({ places }: FairSemaphoreOptions) {
    this.#free = places
  }

  /** Resolves with the release when there is a place. The callers limit how many wait. */
  acquire(asker: object): Promise<() => void> {
    return new Promise((start) => {
      this.#waiting.push({ asker, start })
      this.#serve()
    })
  }

  /**
   * The asker with the fewest places is served first, then the one that waits longest. An asker only gets a
   * place if more places are free than it holds, so slow lookups of a few askers never fill all places.
   */
  #serve(): void {
    for (;;) {
      const next = this.#next()
      if (!next || this.#holds(next.asker) >= this.#free) return
      this.#waiting = this.#waiting.filter((one) => one !== next)
      this.#free--
      this.#held.set(next.asker, this.#holds(next.asker) + 1)
      next.start(() => this.#release(next.asker))
    }
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined
    for (const one of this.#waiting) if (!next || this.#holds(one.asker) < this.#holds(next.asker)) next = one
    return next
  }

  #release(asker: object): void {
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
