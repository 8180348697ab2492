/** The bytes of one connection or request on their way into its record. */
import type { Entry } from './records.ts'

export class Traffic {
  readonly #read: () => readonly [bytesIn: number, bytesOut: number]
  #entry: Entry | undefined
  #in = 0
  #out = 0

  /** `read` gives the totals so far. */
  constructor(read: () => readonly [bytesIn: number, bytesOut: number]) {
    this.#read = read
  }

  /** Until there is an entry, bytes wait. */
  set entry(entry: Entry) {
    this.#entry = entry
  }

  settle(): void {
    if (!this.#entry) return
    const [bytesIn, bytesOut] = this.#read()
    this.#entry.add(bytesIn - this.#in, bytesOut - this.#out)
    this.#in = bytesIn
    this.#out = bytesOut
  }
}
