/** Covers texts in a stream of bytes, also where one lies across the border of two chunks. Lengths stay as they are. */
import { Watch } from './watch.ts'

const STAR = 0x2a
const NOTHING: Buffer = Buffer.alloc(0)
/** A line end is passed on at once behind fewer characters than this, or the end of many an ordinary line would wait for the next one. */
const FEWEST_HELD = 8

export class Masker {
  readonly #watch: Watch
  /** The end of what came, as it came: what is held back, and before it what is known to matter though it has been passed on. */
  #tail = NOTHING
  /** The same bytes with what was found in them covered. */
  #covered = NOTHING
  #passed = 0
  /** How many were covered so far. */
  hits = 0

  constructor(texts: readonly string[] | Watch) {
    this.#watch = Watch.of(texts)
  }

  /** What may be passed on. Bytes are held back only while they could be the beginning of a text. */
  push(chunk: Buffer): Buffer {
    const bytes = joined(this.#tail, chunk)
    const isClean = this.#covered === this.#tail
    const out = this.#mask(bytes, isClean ? bytes : joined(this.#covered, chunk))
    const { held: wanted, known } = this.#ends(bytes)
    // What has been passed on cannot be held back any more.
    const held = Math.min(wanted, bytes.length - this.#passed)
    const passed = out.subarray(this.#passed, bytes.length - held)
    const from = bytes.length - Math.max(held, known)
    this.#passed = bytes.length - held - from
    this.#tail = bytes.subarray(from)
    this.#covered = out === bytes ? this.#tail : out.subarray(from)
    return passed
  }

  /** What was held back, when nothing more comes. */
  end(): Buffer {
    const rest = this.#covered.subarray(this.#passed)
    this.#tail = NOTHING
    this.#covered = NOTHING
    this.#passed = 0
    return rest
  }

  /** A whole text at once, such as the value of a header. */
  text(text: string): string {
    const bytes = Buffer.from(text, 'latin1')
    return this.#mask(bytes, bytes).toString('latin1')
  }

  /** SECURITY: SE-04. The chunk is somebody else's buffer, so it is copied before the first byte of it is covered. */
  #mask(bytes: Buffer, begun: Buffer): Buffer {
    let out = begun
    const cover = (start: number, end: number): void => {
      if (out === bytes) out = Buffer.from(bytes)
      out.fill(STAR, start, end)
    }
    this.#watch.forms.each(bytes, ({ start, end }) => {
      cover(start, end)
      this.hits++
    })
    this.#watch.wrapped.each(bytes, (places) => {
      // The line ends stay, so that what is read line by line still is.
      for (const place of places) cover(place, place + 1)
      this.hits++
    })
    return out
  }

  /** How many of the last bytes are held back, and how many have to be known when the next ones come. */
  #ends(bytes: Buffer): { readonly held: number; readonly known: number } {
    const held = this.#watch.forms.beginning(bytes)
    const { length, own } = this.#watch.wrapped.beginning(bytes)
    return { held: own >= FEWEST_HELD ? Math.max(held, length) : held, known: length }
  }
}

function joined(before: Buffer, chunk: Buffer): Buffer {
  return before.length === 0 ? chunk : Buffer.concat([before, chunk])
}
