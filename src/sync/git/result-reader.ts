/** What the result script writes, told apart as it comes: the header, and the pack behind it. */
import { LONGEST_HEADER_BYTES, parseResultHeader, type ResultHeader } from './result-header.ts'

export const LARGEST_PACK_BYTES = 2 * 1024 ** 3

/** SECURITY: whoever ran inside writes it, and may write without end, or something else. */
export class ResultReader {
  #head = Buffer.alloc(0)
  #header: ResultHeader | undefined
  #packBytes = 0

  get header(): ResultHeader | undefined {
    return this.#header
  }

  get packBytes(): number {
    return this.#packBytes
  }

  /** The bytes of the pack in it, or why it goes no further. */
  push(data: Buffer): Buffer | 'too large' | 'no header' {
    const pack = this.#header ? data : this.#afterHeader(data)
    if (pack === undefined) return 'no header'
    this.#packBytes += pack.length
    return this.#packBytes > LARGEST_PACK_BYTES ? 'too large' : pack
  }

  #afterHeader(data: Buffer): Buffer | undefined {
    this.#head = Buffer.concat([this.#head, data])
    const found = parseResultHeader(this.#head)
    if (!found) return this.#head.length > LONGEST_HEADER_BYTES ? undefined : Buffer.alloc(0)
    const pack = this.#head.subarray(found.packAt)
    this.#header = found.header
    this.#head = Buffer.alloc(0)
    return pack
  }
}
