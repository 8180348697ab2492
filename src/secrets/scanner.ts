/** Searches a stream of bytes for texts, also across chunks, in percent-encoding, and wrapped into lines. */
import { SearchSet } from './search-set.ts'

const PERCENT = 0x25
const NOTHING: Buffer = Buffer.alloc(0)

export class Scanner {
  readonly #plain: Window
  readonly #decoded: Window
  readonly #wrapped: Window
  /** A percent code that is cut by the end of a chunk. */
  #code: Buffer = NOTHING
  #found: number | undefined

  constructor(texts: readonly string[] | SearchSet) {
    const set = SearchSet.of(texts)
    const { forms, texts: plain, wrapped } = set
    this.#plain = new Window(forms.longest, (bytes) => forms.first(bytes)?.text)
    this.#decoded = new Window(plain.longest, (bytes) => plain.first(bytes)?.text)
    this.#wrapped = new Window(wrapped.reach, (bytes) => {
      let found: number | undefined
      wrapped.each(bytes, (_, text) => {
        found = text
        return false
      })
      return found
    })
  }

  /** The index of the first text found. */
  get found(): number | undefined {
    return this.#found
  }

  /** Whether one of the texts was found so far. */
  push(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    this.#found ??= this.#plain.push(bytes) ?? this.#pushDecoded(bytes) ?? this.#wrapped.push(bytes)
    return this.#found !== undefined
  }

  /** SECURITY: SE-03. A server decodes any mix of codes and letters, such as `%61%62c`. */
  #pushDecoded(bytes: Buffer): number | undefined {
    if (this.#code.length === 0 && !bytes.includes(PERCENT)) return this.#decoded.pushKnown(bytes)
    const { bytes: plain, rest } = decode(Buffer.concat([this.#code, bytes]))
    this.#code = rest
    return this.#decoded.push(plain)
  }
}

/** Whether a complete text contains one of the texts. */
export function mentions(text: string, texts: readonly string[] | SearchSet): boolean {
  return new Scanner(texts).push(Buffer.from(text, 'latin1'))
}

/** Decodes percent codes once. `rest` is a code that is cut off. */
function decode(bytes: Buffer): { readonly bytes: Buffer; readonly rest: Buffer } {
  const plain = Buffer.allocUnsafe(bytes.length)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    const [high, low] = byte === PERCENT ? [digit(bytes[at + 1]), digit(bytes[at + 2])] : [-1, -1]
    const isCut = byte === PERCENT && (at + 1 === bytes.length || (at + 2 === bytes.length && high >= 0))
    if (isCut) return { bytes: plain.subarray(0, length), rest: bytes.subarray(at) }
    const isCode = high >= 0 && low >= 0
    plain[length++] = isCode ? high * 16 + low : byte
    if (isCode) at += 2
  }
  return { bytes: plain.subarray(0, length), rest: NOTHING }
}

function digit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = (byte | 0x20) - 0x61
  return letter >= 0 && letter < 6 ? letter + 10 : -1
}

/** Searches one decoding of the stream, and remembers the end of each chunk. */
class Window {
  readonly #keep: number
  readonly #find: (bytes: Buffer) => number | undefined
  #tail: Buffer = NOTHING

  constructor(longest: number, find: (bytes: Buffer) => number | undefined) {
    this.#keep = Math.max(0, longest - 1)
    this.#find = find
  }

  push(chunk: Buffer): number | undefined {
    return this.pushKnown(chunk) ?? this.#find(chunk)
  }

  /**
   * For a chunk that another window has searched already: only searches across its border with the previous
   * one.
   */
  pushKnown(chunk: Buffer): number | undefined {
    const tail = this.#tail
    const border = tail.length === 0 ? NOTHING : Buffer.concat([tail, chunk.subarray(0, this.#keep)])
    const all = chunk.length >= this.#keep || tail.length === 0 ? chunk : border
    this.#tail = Buffer.from(all.subarray(Math.max(0, all.length - this.#keep)))
    return this.#find(border)
  }
}
