/** Wakes subscribers of a subject. It carries no data, so it stores nothing and can lose nothing. */
export class Notifier {
  readonly #waiting = new Map<string, Set<() => void>>()

  /** Calls `wake` at each notification of a subject; returns a function that unsubscribes. */
  subscribe(subject: string, wake: () => void): () => void {
    const waiting = this.#waiting.get(subject) ?? new Set()
    this.#waiting.set(subject, waiting)
    waiting.add(wake)
    return () => {
      waiting.delete(wake)
      if (waiting.size === 0 && this.#waiting.get(subject) === waiting) this.#waiting.delete(subject)
    }
  }

  notify(subject: string): void {
    for (const wake of this.#waiting.get(subject) ?? []) wake()
  }

  /** The number of subjects with subscribers. */
  get size(): number {
    return this.#waiting.size
  }
}
