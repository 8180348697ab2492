/** Looks for texts in a stream of bytes, also where one lies across the border of two chunks, or is written in percent codes. */
import { needlesOf } from './needles.ts'

export class Scanner {
  readonly #plain: Window
  readonly #decoded: Window
  #code = ''

  constructor(texts: readonly string[]) {
    this.#plain = new Window(texts.flatMap(needlesOf))
    this.#decoded = new Window(texts.map((text) => Buffer.from(text)))
  }

  /** Whether one of the texts has been seen by now. */
  push(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    if (this.#plain.push(bytes)) return true
    // SECURITY: SE-03. `%61%62c`: any mix of codes and letters means the same to a server.
    if (this.#code === '' && !bytes.includes(0x25)) return this.#decoded.push(bytes)
    return this.#decoded.push(this.#decode(bytes))
  }

  #decode(bytes: Buffer): Buffer {
    const text = this.#code + bytes.toString('latin1')
    // A code that is cut by the end of the chunk is read with the next one.
    const cut = /%[0-9A-Fa-f]?$/.exec(text)
    this.#code = cut?.[0] ?? ''
    const whole = cut ? text.slice(0, cut.index) : text
    const plain = whole.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    )
    return Buffer.from(plain, 'latin1')
  }
}

/** Whether a text that is there as a whole has one of the texts in it. */
export function mentions(text: string, texts: readonly string[]): boolean {
  return new Scanner(texts).push(Buffer.from(text, 'latin1'))
}

class Window {
  readonly #needles: readonly Buffer[]
  readonly #keep: number
  #tail: Buffer = Buffer.alloc(0)
  #isFound = false

  constructor(needles: readonly Buffer[]) {
    this.#needles = needles
    this.#keep = Math.max(0, ...needles.map(({ length }) => length - 1))
  }

  push(chunk: Buffer): boolean {
    if (this.#isFound || this.#needles.length === 0) return this.#isFound
    const border = Buffer.concat([this.#tail, chunk.subarray(0, this.#keep)])
    this.#isFound = this.#needles.some((needle) => border.includes(needle) || chunk.includes(needle))
    const all = chunk.length >= this.#keep ? chunk : Buffer.concat([this.#tail, chunk])
    this.#tail = Buffer.from(all.subarray(Math.max(0, all.length - this.#keep)))
    return this.#isFound
  }
}
