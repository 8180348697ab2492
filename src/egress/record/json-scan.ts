/**
 * Finds a few values in JSON that arrives in chunks, without storing it. Memory is bounded: one key or value
 * of at most `LONGEST` bytes and a few levels. Malformed JSON is never an error: its sender could lie in
 * valid JSON just as well.
 */

/** The name of a wanted value, or the wanted fields of an object. */
export type Field = string | ReadonlyMap<string, Field>

const LONGEST = 256
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const SPACE = 0x20

export class JsonScan {
  readonly #document: ReadonlyMap<string, Field>
  readonly #onValue: (name: string, value: string | number) => void
  /** The open objects with wanted fields, outermost first. */
  #objects: ReadonlyMap<string, Field>[] = []
  /** Nesting depth inside a value that is not wanted. */
  #skipped = 0
  /** Whether the documents are inside a list, as in some responses. */
  #isListed = false
  /** What the next value is, if it is wanted. */
  #wanted: Field | undefined
  #isKeyNext = false
  #isInString = false
  #isEscaped = false
  /** The current string or number, if it is wanted and not too long. */
  #text: number[] | undefined

  constructor(document: ReadonlyMap<string, Field>, onValue: (name: string, value: string | number) => void) {
    this.#document = document
    this.#onValue = onValue
    this.#wanted = document
  }

  /** Starts a new document, whatever was left open. */
  reset(): void {
    this.#objects = []
    this.#skipped = 0
    this.#isListed = false
    this.#wanted = this.#document
    this.#isKeyNext = this.#isInString = this.#isEscaped = false
    this.#text = undefined
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at++) {
      if (this.#isInString && !this.#isEscaped && !this.#text) {
        // Most of the input is long strings that are not wanted.
        at = stringEnd(chunk, at)
        if (at === chunk.length) return
      }
      const byte = chunk[at] ?? 0
      if (this.#isInString) this.#inString(byte)
      else this.#between(byte)
    }
  }

  #inString(byte: number): void {
    if (!this.#isEscaped && byte === QUOTE) return void this.#stringEnds()
    this.#isEscaped = !this.#isEscaped && byte === BACKSLASH
    this.#keep(byte)
  }

  #between(byte: number): void {
    switch (byte) {
      case QUOTE:
        this.#isInString = true
        this.#text =
          this.#skipped === 0 && (this.#isKeyNext || typeof this.#wanted === 'string') ? [] : undefined
        return
      case OPEN_OBJECT:
        return void this.#open()
      case OPEN_LIST:
        if (this.#skipped === 0 && this.#objects.length === 0 && !this.#isListed) this.#isListed = true
        else this.#skipped++
        return
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        return void this.#close()
      case COMMA:
        return void this.#comma()
      case COLON:
        return
      default:
        if (this.#skipped > 0 || typeof this.#wanted !== 'string' || this.#isKeyNext) return
        if (byte <= SPACE) return void this.#numberEnds()
        this.#text ??= []
        this.#keep(byte)
    }
  }

  #keep(byte: number): void {
    if (!this.#text) return
    if (this.#text.length < LONGEST) this.#text.push(byte)
    else this.#text = undefined
    if (!this.#text && !this.#isInString) this.#wanted = undefined
  }

  #open(): void {
    if (this.#skipped > 0 || typeof this.#wanted !== 'object') {
      this.#skipped++
      return
    }
    this.#objects.push(this.#wanted)
    this.#wanted = undefined
    this.#isKeyNext = true
  }

  #close(): void {
    if (this.#skipped > 0) {
      this.#skipped--
      return
    }
    this.#numberEnds()
    if (this.#objects.pop() === undefined) this.#isListed = false
    this.#isKeyNext = false
    // Another document may follow.
    this.#wanted = this.#objects.length === 0 ? this.#document : undefined
  }

  #comma(): void {
    if (this.#skipped > 0) return
    this.#numberEnds()
    this.#isKeyNext = this.#objects.length > 0
    this.#wanted = this.#objects.length === 0 ? this.#document : undefined
  }

  #stringEnds(): void {
    const text = this.#text
    this.#isInString = false
    this.#text = undefined
    if (this.#skipped > 0) return
    if (this.#isKeyNext) {
      this.#isKeyNext = false
      this.#wanted = text && this.#objects.at(-1)?.get(decoded(text) ?? '')
      return
    }
    const value = text && decoded(text)
    if (value !== undefined && typeof this.#wanted === 'string') this.#onValue(this.#wanted, value)
    if (this.#objects.length > 0) this.#wanted = undefined
  }

  #numberEnds(): void {
    const text = this.#text
    this.#text = undefined
    if (!text || typeof this.#wanted !== 'string') return
    const written = Buffer.from(text).toString('latin1')
    if (/^-?\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?$/.test(written))
      this.#onValue(this.#wanted, Number(written))
    this.#wanted = undefined
  }
}

/** The position of the next quote or escape. */
function stringEnd(chunk: Buffer, from: number): number {
  for (let at = from; at < chunk.length; at++) if (chunk[at] === QUOTE || chunk[at] === BACKSLASH) return at
  return chunk.length
}

function decoded(text: readonly number[]): string | undefined {
  const written = Buffer.from(text).toString('utf8')
  if (!written.includes('\\')) return written
  try {
    return JSON.parse(`"${written}"`) as string
  } catch {
    return undefined
  }
}
