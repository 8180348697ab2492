/** Finds base64 that is wrapped into lines, as in mail and certificates, whatever the width of the lines. */
import { type Pattern, PatternSearch } from './pattern-search.ts'

const LF = 0x0a
const CR = 0x0d
const NEAR = 64

interface Unwrapped {
  readonly bytes: Buffer
  /** The position of each byte in the wrapped input. */
  readonly places: Uint32Array
}

export class WrappedBase64Search {
  /**
   * How far a pattern can extend to each side of a line end. More line ends than letters are not wrapping.
   */
  readonly reach: number
  readonly #search: PatternSearch
  /** The pairs of adjacent bytes in patterns, so that most line ends can be skipped. */
  readonly #pairs = new Uint8Array(2 ** 16)

  constructor(patterns: readonly Pattern[]) {
    this.#search = new PatternSearch(patterns)
    this.reach = 2 * this.#search.longest
    for (const { bytes } of patterns)
      for (let at = 1; at < bytes.length; at++) this.#pairs[pair(bytes[at - 1], bytes[at])] = 1
  }

  /** Every match that contains a line end, with the positions of its bytes, until `take` returns false. */
  each(bytes: Buffer, take: (places: Uint32Array, text: number) => unknown): void {
    let at = nextLineEnd(bytes, 0)
    while (at >= 0) {
      const before = bytes[at - 1] === CR ? at - 2 : at - 1
      if (this.#pairs[pair(bytes[before], bytes[at + 1])] === 0) {
        at = nextLineEnd(bytes, at + 1)
        continue
      }
      const from = Math.max(0, at - this.reach)
      // The searched range also covers the next line ends, so many line ends do not make the search
      // expensive.
      const around = unwrap(bytes.subarray(from, at + 2 * this.reach), from)
      let isOver = false
      this.#search.each(around.bytes, ({ start, end, text }) => {
        isOver = take(around.places.subarray(start, end), text) === false
        return !isOver
      })
      if (isOver) return
      at = nextLineEnd(bytes, at + this.reach)
    }
  }

  /**
   * How many of the last bytes could begin a match with a line end, and how many of those are pattern bytes.
   */
  prefixAtEnd(bytes: Buffer): { readonly length: number; readonly own: number } {
    const from = Math.max(0, bytes.length - this.reach)
    const last = bytes.subarray(from)
    // A chunk may end between CR and LF.
    if (!last.includes(LF) && last.at(-1) !== CR) return { length: 0, own: 0 }
    const { bytes: lines, places } = unwrap(last, from)
    const own = this.#search.prefixAtEnd(lines)
    return { length: own === 0 ? 0 : bytes.length - (places[lines.length - own] ?? bytes.length), own }
  }
}

/** For line ends that are close together, a loop is faster than `indexOf`. */
function nextLineEnd(bytes: Buffer, from: number): number {
  const near = Math.min(bytes.length, from + NEAR)
  for (let at = from; at < near; at++) if (bytes[at] === LF) return at
  return bytes.indexOf(LF, near)
}

function pair(before = 0, after = 0): number {
  return (before << 8) | after
}

function unwrap(wrapped: Buffer, from: number): Unwrapped {
  const bytes = Buffer.allocUnsafe(wrapped.length)
  const places = new Uint32Array(wrapped.length)
  let length = 0
  for (let at = 0; at < wrapped.length; at++) {
    const byte = wrapped[at] ?? 0
    if (byte === LF || byte === CR) continue
    bytes[length] = byte
    places[length++] = from + at
  }
  return { bytes: bytes.subarray(0, length), places: places.subarray(0, length) }
}
