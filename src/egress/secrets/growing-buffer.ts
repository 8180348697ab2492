/**
 * Collects bytes that arrive in pieces. The cost grows with the number of bytes, not with the number of
 * pieces.
 */

const FIRST_SIZE = 4096

export class GrowingBuffer {
  #bytes: Buffer = Buffer.alloc(0)
  #length = 0

  get length(): number {
    return this.#length
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length
    if (length > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(Math.max(FIRST_SIZE, 2 * this.#bytes.length, length))
      this.#bytes.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    piece.copy(this.#bytes, this.#length)
    this.#length = length
  }

  /** Returns all collected bytes and empties the buffer. */
  takeAll(): Buffer {
    const bytes = this.#bytes.subarray(0, this.#length)
    this.#bytes = Buffer.alloc(0)
    this.#length = 0
    return bytes
  }
}
