/** Reads a cached response while it is sent. */
import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { type CachedHead, HEAD_BYTES } from './cache-file.ts'

const PIECE = 256 * 1024

export interface ReaderParts {
  readonly file: FileHandle
  readonly head: CachedHead
  /** The content does not match its hash. */
  onDamaged(): void
  onClosed(): void
}

/** The owner must close it. */
export class PackageReader {
  readonly head: CachedHead
  readonly #parts: ReaderParts
  #isClosed = false

  constructor(parts: ReaderParts) {
    this.#parts = parts
    this.head = parts.head
  }

  /**
   * Throws if the file is damaged. INVARIANT: the last piece is only returned after the hash of the file is
   * verified.
   */
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
    return new Error('the cached file is damaged')
  }
}
