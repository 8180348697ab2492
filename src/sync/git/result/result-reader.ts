/** Splits the output of the result script, as it arrives, into the header and the pack. */
import { LONGEST_HEADER_BYTES, parseResultHeader, type ResultHeader } from './result-header.ts'

export const LARGEST_PACK_BYTES = 2 * 1024 ** 3

/** SECURITY: the output is written in the sandbox; it may be endless or malformed. */
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

  /** Returns the bytes that belong to the pack, or why reading has to stop. */
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
