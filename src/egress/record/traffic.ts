/** Adds the bytes of one connection or request to its record. */
import type { RecordEntry } from './records.ts'

export class Traffic {
  readonly #read: () => readonly [bytesIn: number, bytesOut: number]
  #entry: RecordEntry | undefined
  #in = 0
  #out = 0

  /** `read` gives the totals so far. */
  constructor(read: () => readonly [bytesIn: number, bytesOut: number]) {
    this.#read = read
  }

  /** Bytes are only recorded after the entry is set. */
  set entry(entry: RecordEntry) {
    this.#entry = entry
  }

  record(): void {
    if (!this.#entry) return
    const [bytesIn, bytesOut] = this.#read()
    this.#entry.add(bytesIn - this.#in, bytesOut - this.#out)
    this.#in = bytesIn
    this.#out = bytesOut
  }
}
