/**
 * Limits the exchanges that one owner has open at once. Streams of the data plane last for hours, so a rate
 * is no limit.
 */
import { AgentPodError } from '../core/error.ts'

export const DEFAULT_EXCHANGES = 1024

export class ExchangeLimit {
  readonly #most: number
  readonly #what: string
  readonly #who: string
  readonly #taken = new Map<string, number>()

  constructor(most: number = DEFAULT_EXCHANGES, what = 'connections into sandboxes', who = 'this key') {
    this.#most = most
    this.#what = what
    this.#who = who
  }

  /** Takes a place. The returned function gives it back; calling it again does nothing. */
  enter(owner: string): () => void {
    const taken = this.#taken.get(owner) ?? 0
    if (taken >= this.#most) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'rate.connections',
        message: `${this.#who} already has ${this.#most} ${this.#what} open, which is the limit`,
        hint: 'close some of them, or try again later',
        retry: { afterMs: 1000 },
      })
    }
    this.#taken.set(owner, taken + 1)
    let isLeft = false
    return () => {
      if (isLeft) return
      isLeft = true
      const left = (this.#taken.get(owner) ?? 1) - 1
      if (left > 0) this.#taken.set(owner, left)
      else this.#taken.delete(owner)
    }
  }

  get size(): number {
    return [...this.#taken.values()].reduce((sum, one) => sum + one, 0)
  }
}
