/** Covers texts in a stream of bytes, also where one lies across the border of two chunks. Lengths stay as they are. */
import { needlesOf } from './needles.ts'

const STAR = 0x2a

export class Masker {
  readonly #needles: readonly Buffer[]
  readonly #longest: number
  #held: Buffer = Buffer.alloc(0)
  /** How many were covered so far. */
  hits = 0

  constructor(texts: readonly string[]) {
    this.#needles = texts.flatMap(needlesOf).sort((a, b) => b.length - a.length)
    this.#longest = this.#needles[0]?.length ?? 0
  }

  /** What may be passed on. Bytes are held back only while they could be the beginning of a text. */
  push(chunk: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    const masked = this.#mask(bytes)
    const keep = this.#beginning(masked)
    this.#held = masked.subarray(masked.length - keep)
    return masked.subarray(0, masked.length - keep)
  }

  /** What was held back, when nothing more comes. */
  end(): Buffer {
    const rest = this.#held
    this.#held = Buffer.alloc(0)
    return rest
  }

  /** A whole text at once, such as the value of a header. */
  text(text: string): string {
    const bytes = Buffer.from(text, 'latin1')
    return this.#mask(bytes).toString('latin1')
  }

  /** SECURITY: SE-04. The chunk is somebody else's buffer, so it is copied before the first byte of it is covered. */
  #mask(bytes: Buffer): Buffer {
    let out = bytes
    for (const needle of this.#needles) {
      for (let at = out.indexOf(needle); at >= 0; at = out.indexOf(needle, at + needle.length)) {
        if (out === bytes) out = Buffer.from(bytes)
        out.fill(STAR, at, at + needle.length)
        this.hits++
      }
    }
    return out
  }

  /** The length of the longest end of the bytes that a text could begin with. */
  #beginning(bytes: Buffer): number {
    const most = Math.min(this.#longest - 1, bytes.length)
    for (let length = most; length > 0; length--) {
      const first = bytes[bytes.length - length]
      for (const needle of this.#needles) {
        if (needle.length <= length || needle[0] !== first) continue
        if (bytes.compare(needle, 0, length, bytes.length - length) === 0) return length
      }
    }
    return 0
  }
}
