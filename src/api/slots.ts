/** So many exchanges at once for each owner; the data plane has no other bound, since its streams live for hours. */
import { AgentPodError } from '../core/error.ts'

export const DEFAULT_SLOTS = 1024

export class Slots {
  readonly #most: number
  readonly #taken = new Map<string, number>()

  constructor(most: number = DEFAULT_SLOTS) {
    this.#most = most
  }

  /** Takes one; the answer gives it back, once, however often it is called. */
  enter(owner: string): () => void {
    const taken = this.#taken.get(owner) ?? 0
    if (taken >= this.#most) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'rate.connections',
        message: `${this.#most} connections into sandboxes of one owner are open already`,
        hint: 'end some of the streams that are open',
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
