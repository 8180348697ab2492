/** Reads multipart/form-data as a stream, part by part. SECURITY: the bytes are a client's and untrusted. */

export class MultipartError extends Error {}

export interface Part {
  /** The name of the form field; empty if it has none. */
  readonly name: string
  readonly filename: string
  /** Read it before asking for the next part; unread bytes are skipped then. */
  readonly content: AsyncGenerator<Buffer>
}

const LONGEST_HEADER_BYTES = 16 * 1024
const LINE = Buffer.from('\r\n')

export async function* readParts(source: AsyncIterable<Buffer>, boundary: string): AsyncGenerator<Part> {
  const form = new FormReader(source, boundary)
  // Bytes before the first boundary belong to no part.
  await skip(form.content())
  while (await form.hasMore()) {
    const header = await form.header()
    const content = form.content()
    yield { ...dispositionOf(header), content }
    await skip(content)
  }
}

async function skip(content: AsyncGenerator<Buffer>): Promise<void> {
  while (!(await content.next()).done);
}

class FormReader {
  readonly #source: AsyncIterator<Buffer>
  readonly #delimiter: Buffer
  /** The first boundary may be at the very beginning, without a line break before it. */
  #held: Buffer = LINE

  constructor(source: AsyncIterable<Buffer>, boundary: string) {
    this.#source = source[Symbol.asyncIterator]()
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  /** Yields bytes up to the next boundary, and skips the boundary. */
  async *content(): AsyncGenerator<Buffer> {
    for (;;) {
      const end = this.#held.indexOf(this.#delimiter)
      if (end >= 0) {
        const last = this.#held.subarray(0, end)
        this.#held = this.#held.subarray(end + this.#delimiter.length)
        if (last.length > 0) yield last
        return
      }
      const safe = this.#held.length - this.#delimiter.length + 1
      if (safe > 0) {
        const part = this.#held.subarray(0, safe)
        this.#held = this.#held.subarray(safe)
        yield part
      }
      await this.#more()
    }
  }

  /** After a boundary: whether another part follows. */
  async hasMore(): Promise<boolean> {
    while (this.#held.length < 2) await this.#more()
    if (this.#held.subarray(0, 2).toString('latin1') === '--') return false
    const line = await this.#until(LINE)
    if (line.toString('latin1').trim() === '') return true
    throw new MultipartError('unexpected text after a boundary')
  }

  async header(): Promise<string> {
    const lines: string[] = []
    for (let size = 0; size <= LONGEST_HEADER_BYTES; ) {
      const line = await this.#until(LINE)
      if (line.length === 0) return lines.join('\r\n')
      size += line.length
      lines.push(line.toString('utf8'))
    }
    throw new MultipartError('the header of a part is too long')
  }

  async #until(mark: Buffer): Promise<Buffer> {
    for (;;) {
      const end = this.#held.indexOf(mark)
      if (end >= 0) {
        const found = this.#held.subarray(0, end)
        this.#held = this.#held.subarray(end + mark.length)
        return found
      }
      if (this.#held.length > LONGEST_HEADER_BYTES) throw new MultipartError('a line of a part is too long')
      await this.#more()
    }
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#source.next()
    if (done) throw new MultipartError('the form ends early')
    this.#held = this.#held.length === 0 ? value : Buffer.concat([this.#held, value])
  }
}

const DISPOSITION = /^content-disposition:\s*form-data\s*(;.*)$/im
const PARAMETER = /;\s*([\w*]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))/g

function dispositionOf(header: string): { name: string; filename: string } {
  const found: Record<string, string> = {}
  for (const [, key = '', quoted, plain] of (DISPOSITION.exec(header)?.[1] ?? '').matchAll(PARAMETER)) {
    found[key.toLowerCase()] = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain ?? ''
  }
  const extended = /^utf-8'[^']*'(.*)$/i.exec(found['filename*'] ?? '')?.[1]
  return { name: found['name'] ?? '', filename: decoded(extended) ?? found['filename'] ?? '' }
}

function decoded(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text)
  } catch {
    return undefined
  }
}
