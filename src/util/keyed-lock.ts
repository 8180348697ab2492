/** Runs tasks with the same key one after another, and tasks with different keys concurrently. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>()

  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const mine = before.then(task, task)
    const tail = mine.catch(() => undefined)
    this.#tails.set(key, tail)
    try {
      return await mine
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    }
  }
}
