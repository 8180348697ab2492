/** Wakes those who wait for a subject. It carries no message, so it holds nothing and can lose nothing. */
export class News {
  readonly #waiting = new Map<string, Set<() => void>>()

  /** Calls `wake` at each piece of news of a subject; returns the way out. */
  subscribe(subject: string, wake: () => void): () => void {
    const waiting = this.#waiting.get(subject) ?? new Set()
    this.#waiting.set(subject, waiting)
    waiting.add(wake)
    return () => {
      waiting.delete(wake)
      if (waiting.size === 0 && this.#waiting.get(subject) === waiting) this.#waiting.delete(subject)
    }
  }

  tell(subject: string): void {
    for (const wake of this.#waiting.get(subject) ?? []) wake()
  }

  /** How many subjects are waited for. */
  get size(): number {
    return this.#waiting.size
  }
}
