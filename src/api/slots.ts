/** So many exchanges at once for each owner; the data plane has no other bound, since its streams live for hours. */
import { AgentPodError } from '../core/error.ts'

export const DEFAULT_SLOTS = 1024

export class Slots {
  readonly #most: number
  readonly #what: string
  readonly #taken = new Map<string, number>()

  constructor(most: number = DEFAULT_SLOTS, what = 'connections into sandboxes') {
    this.#most = most
    this.#what = what
  }

  /** Takes one; the answer gives it back, once, however often it is called. */
  enter(owner: string): () => void {
    const taken = this.#taken.get(owner) ?? 0
    if (taken >= this.#most) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'rate.connections',
        message: `${this.#most} ${this.#what} of one owner are on their way already`,
        hint: 'end some of them, or wait',
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
