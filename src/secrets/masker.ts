/** Masks texts in a stream of bytes, also across chunks. Does not change the length. */
import { SearchSet } from './search-set.ts'

const STAR = 0x2a
const NOTHING: Buffer = Buffer.alloc(0)
/**
 * With fewer matching characters before it, a line end is not held back, so that ordinary lines are not
 * delayed.
 */
const FEWEST_HELD = 8

export class Masker {
  readonly #searchSet: SearchSet
  /**
   * The last input bytes: those held back, and before them bytes that were returned but may begin a match.
   */
  #tail = NOTHING
  /** The same bytes after masking. */
  #masked = NOTHING
  #passed = 0
  /** The number of matches so far. */
  hits = 0

  constructor(texts: readonly string[] | SearchSet) {
    this.#searchSet = SearchSet.of(texts)
  }

  /** Returns the bytes that can be sent. Bytes are only held back while they could begin a text. */
  push(chunk: Buffer): Buffer {
    const bytes = joined(this.#tail, chunk)
    const isClean = this.#masked === this.#tail
    const out = this.#mask(bytes, isClean ? bytes : joined(this.#masked, chunk))
    const { held: wanted, known } = this.#ends(bytes)
    // Bytes that were returned already cannot be held back.
    const held = Math.min(wanted, bytes.length - this.#passed)
    const passed = out.subarray(this.#passed, bytes.length - held)
    const from = bytes.length - Math.max(held, known)
    this.#passed = bytes.length - held - from
    this.#tail = bytes.subarray(from)
    this.#masked = out === bytes ? this.#tail : out.subarray(from)
    return passed
  }

  /** Returns the held-back bytes at the end of the stream. */
  end(): Buffer {
    const rest = this.#masked.subarray(this.#passed)
    this.#tail = NOTHING
    this.#masked = NOTHING
    this.#passed = 0
    return rest
  }

  /** Masks a complete text, such as the value of a header. */
  text(text: string): string {
    const bytes = Buffer.from(text, 'latin1')
    return this.#mask(bytes, bytes).toString('latin1')
  }

  /** SECURITY: SE-04. The chunk may be shared, so it is copied before the first byte is masked. */
  #mask(bytes: Buffer, begun: Buffer): Buffer {
    let out = begun
    const mask = (start: number, end: number): void => {
      if (out === bytes) out = Buffer.from(bytes)
      out.fill(STAR, start, end)
    }
    this.#searchSet.forms.each(bytes, ({ start, end }) => {
      mask(start, end)
      this.hits++
    })
    this.#searchSet.wrapped.each(bytes, (places) => {
      // Line ends are kept, so that the output can still be read line by line.
      for (const place of places) mask(place, place + 1)
      this.hits++
    })
    return out
  }

  /** How many of the last bytes to hold back, and how many to remember for the next chunk. */
  #ends(bytes: Buffer): { readonly held: number; readonly known: number } {
    const held = this.#searchSet.forms.prefixAtEnd(bytes)
    const { length, own } = this.#searchSet.wrapped.prefixAtEnd(bytes)
    return { held: own >= FEWEST_HELD ? Math.max(held, length) : held, known: length }
  }
}

function joined(before: Buffer, chunk: Buffer): Buffer {
  return before.length === 0 ? chunk : Buffer.concat([before, chunk])
}
