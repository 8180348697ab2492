/** A kept answer, read while it is sent. */
import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { HEAD_BYTES, type KeptHead } from './package-file.ts'

const PIECE = 256 * 1024

export interface ReaderParts {
  readonly file: FileHandle
  readonly head: KeptHead
  /** The file does not hold what it should. */
  onDamaged(): void
  onClosed(): void
}

/** Whoever has one closes it. */
export class PackageReader {
  readonly head: KeptHead
  readonly #parts: ReaderParts
  #isClosed = false

  constructor(parts: ReaderParts) {
    this.#parts = parts
    this.head = parts.head
  }

  /** Throws where the file is damaged. INVARIANT: the last piece is given once the whole is known to be right, so nobody has all of what is wrong. */
  async *pieces(): AsyncGenerator<Buffer, void> {
    const { file, head } = this.#parts
    const hash = createHash('sha256')
    for (let at = 0; at < head.bytes; ) {
      const wanted = Math.min(PIECE, head.bytes - at)
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(wanted), 0, wanted, HEAD_BYTES + at)
      if (bytesRead === 0) throw this.#damaged()
      const piece = buffer.subarray(0, bytesRead)
      hash.update(piece)
      at += bytesRead
      if (at === head.bytes && hash.digest('hex') !== head.sha256) throw this.#damaged()
      yield piece
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const closed = (): void => this.#parts.onClosed()
    this.#parts.file.close().then(closed, closed)
  }

  #damaged(): Error {
    this.#parts.onDamaged()
    return new Error('what was kept is damaged')
  }
}
