import type { Readable } from 'node:stream'

/** Reads a byte stream in pieces of given lengths. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: Readable) {
    this.#chunks = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  }

  /** Some bytes, but no more than `limit`; undefined at the end. */
  async atMost(limit: number): Promise<Buffer | undefined> {
    if (this.#rest.length === 0 && !(await this.#more())) return undefined
    return this.#take(Math.min(limit, this.#rest.length))
  }

  /** Exactly that many bytes; undefined if there are fewer. */
  async exactly(length: number): Promise<Buffer | undefined> {
    while (this.#rest.length < length) if (!(await this.#more())) return undefined
    return this.#take(length)
  }

  /** A line without its line break; undefined if there is none within `limit` bytes. */
  async line(limit: number): Promise<string | undefined> {
    let end = this.#rest.indexOf('\n')
    while (end < 0) {
      if (this.#rest.length > limit || !(await this.#more())) return undefined
      end = this.#rest.indexOf('\n')
    }
    if (end > limit) return undefined
    return this.#take(end + 1).toString('latin1', 0, end)
  }

  async isAtEnd(): Promise<boolean> {
    return this.#rest.length === 0 && !(await this.#more())
  }

  async #more(): Promise<boolean> {
    const { value, done } = await this.#chunks.next()
    if (done) return false
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value])
    return true
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    return taken
  }
}
