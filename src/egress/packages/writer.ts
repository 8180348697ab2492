/** Writes a response to the cache while it is sent to the client, which the disk may delay only briefly. */
import { createHash } from 'node:crypto'
import { type FileHandle, rename, rm } from 'node:fs/promises'
import { Writable } from 'node:stream'
import type { Clock } from '../../util/clock.ts'
import { type CachedHead, HEAD_BYTES, writeHead } from './cache-file.ts'

export interface CacheableAnswer {
  readonly url: string
  readonly headers: CachedHead['headers']
  /** The Content-Length, if there is one. */
  readonly bytes?: number | undefined
  /** The expected hash of the body, if it is known. */
  readonly sha256?: string | undefined
  readonly address?: string | undefined
}

export interface WriterParts {
  readonly answer: CacheableAnswer
  readonly mostBytes: number
  readonly clock: Clock
  /** The temporary path until the file is complete. */
  readonly draft: string
  readonly path: string
  /** Creates the file at `draft`. */
  open(): Promise<FileHandle>
  /** The file is complete and at `path`, and takes this many bytes. */
  onStored(bytes: number): void
}

/** High-water mark of the bytes that wait for the disk; at most twice this is buffered. */
const MOST_UNWRITTEN = 1024 * 1024
/** How long a download waits for the disk in total; after that it is not cached. */
const MOST_WAIT_MS = 2000

/**
 * SECURITY: a file is only moved to its path when complete; incomplete files are removed. The owner handles
 * errors.
 */
export class PackageWriter extends Writable {
  readonly #parts: WriterParts
  readonly #hash = createHash('sha256')
  #file: FileHandle | undefined
  #taken = 0
  #written = 0
  #isComplete = false
  #isStored = false
  #waitLeftMs = MOST_WAIT_MS
  #waitsSince: number | undefined
  #cancelWait: () => void = () => undefined
  #onRelief: () => void = () => undefined

  constructor(parts: WriterParts) {
    super({ highWaterMark: MOST_UNWRITTEN })
    this.#parts = parts
  }

  /** Whether the caller should wait for the disk before it adds more. */
  get isBehind(): boolean {
    return !this.destroyed && this.writableNeedDrain
  }

  /** `fn` is called when the writer is no longer behind, or has given up. */
  onRelief(fn: () => void): void {
    this.#onRelief = fn
  }

  add(chunk: Buffer): void {
    if (this.destroyed || this.#isComplete) return
    this.#taken += chunk.length
    const isTooMuch = this.#taken > this.#parts.mostBytes || this.writableLength > MOST_UNWRITTEN * 2
    if (isTooMuch) this.#giveUp()
    else if (!this.write(chunk)) this.#wait()
  }

  /** The server has sent the complete response. */
  finish(): void {
    if (this.destroyed || this.#isComplete) return
    this.#isComplete = true
    this.end()
  }

  /** Discards the file, unless it is complete. */
  drop(): void {
    if (!this.#isComplete) this.destroy()
  }

  override _construct(done: (error?: Error | null) => void): void {
    this.#parts.open().then((file) => {
      this.#file = file
      done()
    }, done)
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#append([chunk]).then(() => done(), done)
  }

  override _writev(chunks: { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#append(chunks.map(({ chunk }) => chunk)).then(() => done(), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#complete().then(() => done(), done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#cancelWait()
    this.#onRelief()
    this.#clear().then(
      () => done(error),
      () => done(error),
    )
  }

  #wait(): void {
    const { clock } = this.#parts
    if (this.#waitsSince !== undefined) return
    const since = clock.now()
    this.#waitsSince = since
    this.#cancelWait = clock.after(this.#waitLeftMs, () => this.#giveUp())
    this.once('drain', () => {
      this.#cancelWait()
      this.#waitsSince = undefined
      this.#waitLeftMs = Math.max(0, this.#waitLeftMs - (clock.now() - since))
      this.#onRelief()
    })
  }

  /** A disk that hangs must not block the download. */
  #giveUp(): void {
    this.destroy()
    this.#onRelief()
  }

  async #append(chunks: readonly Buffer[]): Promise<void> {
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    for (const chunk of chunks) this.#hash.update(chunk)
    const result = await this.#file?.writev(chunks, HEAD_BYTES + this.#written)
    if (result?.bytesWritten !== length)
      throw Object.assign(new Error('the disk accepted only part of the data'), { code: 'ENOSPC' })
    this.#written += length
  }

  async #complete(): Promise<void> {
    const { answer, draft, path, onStored } = this.#parts
    const { url, headers, address } = answer
    const sha256 = this.#hash.digest('hex')
    const isAnnounced = answer.bytes === undefined || answer.bytes === this.#written
    const isExpected = answer.sha256 === undefined || answer.sha256 === sha256
    const head = writeHead({
      url,
      headers,
      bytes: this.#written,
      sha256,
      ...(address !== undefined && { address }),
    })
    if (!isAnnounced || !isExpected || this.#written === 0 || !head) return
    const result = await this.#file?.write(head, 0, HEAD_BYTES, 0)
    if (result?.bytesWritten !== HEAD_BYTES) return
    await rename(draft, path)
    this.#isStored = true
    onStored(HEAD_BYTES + this.#written)
  }

  /** Waits for pending writes. */
  async #clear(): Promise<void> {
    await this.#file?.close()
    if (this.#file && !this.#isStored) await rm(this.#parts.draft, { force: true })
  }
}
