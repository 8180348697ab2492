/** Counts the current holders of each key. */
export class ReferenceCounts {
  readonly #counts = new Map<string, number>()

  /** Adds a holder. The returned function removes it, once, and says whether no holder is left. */
  hold(key: string): () => boolean {
    this.#counts.set(key, this.of(key) + 1)
    let isLeft = false
    return () => {
      if (!isLeft) {
        const left = this.of(key) - 1
        if (left > 0) this.#counts.set(key, left)
        else this.#counts.delete(key)
      }
      isLeft = true
      return this.of(key) === 0
    }
  }

  of(key: string): number {
    return this.#counts.get(key) ?? 0
  }
}
