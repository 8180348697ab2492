/** Reads the tar archives of the daemon. SECURITY: entries that are read are untrusted. */
import type { Readable } from 'node:stream'
import { BLOCK, padding } from '../../../util/file/tar-writer.ts'

const LONGEST_HEADER_BYTES = 1024 * 1024

export interface TarEntry {
  readonly path: string
  /** The type flag: `0` is a file, `2` a symlink, `5` a directory. */
  readonly type: string
  readonly size: number
  /** Must be read to its end, or not at all, before the next entry. */
  content(): AsyncGenerator<Buffer>
}

/** The entries of an archive, in order. Throws if it is not a complete tar archive. */
export async function* readTar(stream: Readable): AsyncGenerator<TarEntry> {
  const bytes = new Bytes(stream)
  let path: string | undefined
  for (;;) {
    const header = await bytes.take(BLOCK)
    if (header === undefined || header.every((byte) => byte === 0)) return
    const type = String.fromCharCode(header[156] ?? 0).replace('\0', '0')
    const size = sizeIn(header)
    if (type === 'x' || type === 'L' || type === 'K' || type === 'g') {
      const said = (await bytes.whole(size)).subarray(0, size).toString('utf8')
      if (type === 'x') path = /(?:^|\n)\d+ path=([^\n]*)\n/.exec(said)?.[1] ?? path
      if (type === 'L') path = said.replace(/\0.*$/s, '')
      continue
    }
    const body = new Body(bytes, size)
    yield { path: path ?? nameIn(header), type, size, content: () => body.read() }
    path = undefined
    await body.skip()
  }
}

function nameIn(header: Buffer): string {
  const text = (from: number, length: number): string =>
    header
      .subarray(from, from + length)
      .toString('utf8')
      .replace(/\0.*$/s, '')
  const prefix = header.subarray(257, 263).toString('latin1') === 'ustar\0' ? text(345, 155) : ''
  return prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`
}

function sizeIn(header: Buffer): number {
  const size =
    (header[124] ?? 0) & 0x80
      ? Number(header.readBigUInt64BE(128))
      : Number.parseInt(header.subarray(124, 136).toString('latin1').trim() || '0', 8)
  if (!Number.isSafeInteger(size) || size < 0) throw new Error('a tar header has no size')
  return size
}

/** The rest of an entry. */
class Body {
  readonly #bytes: Bytes
  readonly #size: number
  #left: number

  constructor(bytes: Bytes, size: number) {
    this.#bytes = bytes
    this.#size = size
    this.#left = size
  }

  async *read(): AsyncGenerator<Buffer> {
    while (this.#left > 0) {
      const chunk = await this.#bytes.some(this.#left)
      if (chunk === undefined) throw cutOff()
      this.#left -= chunk.length
      yield chunk
    }
  }

  async skip(): Promise<void> {
    for await (const _ of this.read());
    if (this.#size % BLOCK > 0) await this.#bytes.take(BLOCK - (this.#size % BLOCK))
  }
}

/** Reads a stream in pieces of given sizes. */
class Bytes {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: Readable) {
    this.#chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  }

  /** At least one byte and at most `most`; undefined at the end. */
  async some(most: number): Promise<Buffer | undefined> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#chunks.next()
      if (done) return undefined
      this.#rest = value
    }
    const piece = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(piece.length)
    return piece
  }

  /** Exactly `size` bytes; undefined at the end of the stream. */
  async take(size: number): Promise<Buffer | undefined> {
    const pieces: Buffer[] = []
    let length = 0
    while (length < size) {
      const piece = await this.some(size - length)
      if (piece === undefined && length === 0) return undefined
      if (piece === undefined) throw cutOff()
      pieces.push(piece)
      length += piece.length
    }
    return Buffer.concat(pieces)
  }

  /** The content of an extended header, with its padding. */
  async whole(size: number): Promise<Buffer> {
    if (size > LONGEST_HEADER_BYTES) throw new Error('a tar header is too long')
    const body = await this.take(size + padding(size).length)
    if (body === undefined && size > 0) throw cutOff()
    return body ?? Buffer.alloc(0)
  }
}

function cutOff(): Error {
  return new Error('the tar archive ends too early')
}
