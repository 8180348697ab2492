/** Base64 in mail, certificates and many tools is broken into lines. It is looked for across line ends, of whatever width the lines are. */
import { Finder, type Needle } from './finder.ts'

const LF = 0x0a
const CR = 0x0d
const NEAR = 64

interface Unwrapped {
  readonly bytes: Buffer
  /** Where each byte stands among those that it was taken from. */
  readonly places: Uint32Array
}

export class WrappedFinder {
  /** How far to both sides of a line end a needle can lie. More line ends than letters are no wrapping. */
  readonly reach: number
  readonly #finder: Finder
  /** The bytes that stand side by side in a needle, so that most line ends are passed over. */
  readonly #pairs = new Uint8Array(2 ** 16)

  constructor(needles: readonly Needle[]) {
    this.#finder = new Finder(needles)
    this.reach = 2 * this.#finder.longest
    for (const { bytes } of needles)
      for (let at = 1; at < bytes.length; at++) this.#pairs[pair(bytes[at - 1], bytes[at])] = 1
  }

  /** Every needle that has a line end in it, with the places of its bytes, until `take` says false. */
  each(bytes: Buffer, take: (places: Uint32Array, text: number) => unknown): void {
    let at = nextLineEnd(bytes, 0)
    while (at >= 0) {
      const before = bytes[at - 1] === CR ? at - 2 : at - 1
      if (this.#pairs[pair(bytes[before], bytes[at + 1])] === 0) {
        at = nextLineEnd(bytes, at + 1)
        continue
      }
      const from = Math.max(0, at - this.reach)
      // So much is looked through at once that it serves the next line ends too: nobody makes them dear by writing many.
      const around = unwrap(bytes.subarray(from, at + 2 * this.reach), from)
      let isOver = false
      this.#finder.each(around.bytes, ({ start, end, text }) => {
        isOver = take(around.places.subarray(start, end), text) === false
        return !isOver
      })
      if (isOver) return
      at = nextLineEnd(bytes, at + this.reach)
    }
  }

  /** How many of the last bytes could begin a needle that has a line end in it, and how many of them are its own. */
  beginning(bytes: Buffer): { readonly length: number; readonly own: number } {
    const from = Math.max(0, bytes.length - this.reach)
    const last = bytes.subarray(from)
    // The end of a chunk may stand between the two bytes of a line end.
    if (!last.includes(LF) && last.at(-1) !== CR) return { length: 0, own: 0 }
    const { bytes: lines, places } = unwrap(last, from)
    const own = this.#finder.beginning(lines)
    return { length: own === 0 ? 0 : bytes.length - (places[lines.length - own] ?? bytes.length), own }
  }
}

/** Calling out for each of many that stand close together would cost more than looking. */
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
