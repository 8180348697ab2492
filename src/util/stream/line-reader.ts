/** Splits a byte stream into lines, each with the offset after it. */

export interface StreamLine {
  readonly line: string
  /** The offset of the next line. */
  readonly end: number
}

export class LineReader {
  readonly #longest: number
  #parts: Buffer[] = []
  #held = 0
  #end: number
  #isSkipping = false

  /** A line longer than `longest` bytes is skipped. */
  constructor(longest: number, offset = 0) {
    this.#longest = longest
    this.#end = offset
  }

  *push(data: Buffer): Generator<StreamLine> {
    let from = 0
    for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, from)) {
      const isWhole = this.#hold(data.subarray(from, at))
      this.#end += at - from + 1
      from = at + 1
      const line = isWhole ? Buffer.concat(this.#parts).toString('utf8') : undefined
      this.#drop()
      this.#isSkipping = false
      if (line !== undefined) yield { line: line.replace(/\r$/, ''), end: this.#end }
    }
    const rest = data.subarray(from)
    this.#end += rest.length
    this.#hold(rest)
  }

  #hold(part: Buffer): boolean {
    if (!this.#isSkipping && this.#held + part.length <= this.#longest) {
      this.#parts.push(part)
      this.#held += part.length
      return true
    }
    this.#isSkipping = true
    this.#drop()
    return false
  }

  #drop(): void {
    this.#parts = []
    this.#held = 0
  }
}
