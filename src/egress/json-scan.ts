/**
 * Finds a few values in JSON that passes in chunks, without keeping it. It holds a key or a value of at most `LONGEST` bytes and a few levels, whatever
 * comes. What is no JSON is read as something, never as an error: who wrote it can lie in proper JSON just as well.
 */

/** The name of a value that is wanted, or the fields of an object that has some. */
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
  /** The objects that are open and have something wanted in them, outermost first. */
  #objects: ReadonlyMap<string, Field>[] = []
  /** What is open within a value that is not wanted. */
  #skipped = 0
  /** A list around documents, as some answers are. */
  #isListed = false
  /** What the next value is. */
  #wanted: Field | undefined
  #isKeyNext = false
  #isInString = false
  #isEscaped = false
  /** The string or the number at hand, where it is of use and not too long. */
  #text: number[] | undefined

  constructor(document: ReadonlyMap<string, Field>, onValue: (name: string, value: string | number) => void) {
    this.#document = document
    this.#onValue = onValue
    this.#wanted = document
  }

  /** Another document begins, whatever was left open. */
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
        // Long strings that nobody wants are most of what comes.
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
    // Behind a document another one may stand.
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

/** Where the string may end, or the next escape is. */
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
