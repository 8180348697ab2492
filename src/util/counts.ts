/** How many hold each key at this moment. */
export class Counts {
  readonly #counts = new Map<string, number>()

  /** Takes hold of it; the answer lets go, once, however often it is called, and says whether nobody is left. */
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
