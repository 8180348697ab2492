/** One answer on its way into the cache, beside its way to the client, which waits for it a moment at most. */
import { createHash } from 'node:crypto'
import { type FileHandle, rename, rm } from 'node:fs/promises'
import { Writable } from 'node:stream'
import type { Clock } from '../util/clock.ts'
import { HEAD_BYTES, type KeptHead, writeHead } from './package-file.ts'

export interface Answer {
  readonly url: string
  readonly headers: KeptHead['headers']
  /** As announced; left out where it was not. */
  readonly bytes?: number | undefined
  /** What the body's hash must be, where it is known before. */
  readonly sha256?: string | undefined
  readonly address?: string | undefined
}

export interface WriterParts {
  readonly answer: Answer
  readonly mostBytes: number
  readonly clock: Clock
  /** Where it lies until it is whole. */
  readonly draft: string
  readonly path: string
  /** Makes the file at `draft`. */
  open(): Promise<FileHandle>
  /** It is whole and in its place, and takes so many bytes there. */
  onKept(bytes: number): void
}

/** What waits in memory for the disk; more than twice that is never held. */
const MOST_UNWRITTEN = 1024 * 1024
/** How long a download waits for the disk, all in all; beyond it the answer is not kept. */
const PATIENCE_MS = 2000

/** SECURITY: nothing is in its place before it is whole, and what is not whole is removed. Errors are its owner's to hear. */
export class PackageWriter extends Writable {
  readonly #parts: WriterParts
  readonly #hash = createHash('sha256')
  #file: FileHandle | undefined
  #taken = 0
  #written = 0
  #isWhole = false
  #isKept = false
  #patienceMs = PATIENCE_MS
  #waitsSince: number | undefined
  #cancelWait: () => void = () => undefined
  #onRelief: () => void = () => undefined

  constructor(parts: WriterParts) {
    super({ highWaterMark: MOST_UNWRITTEN })
    this.#parts = parts
  }

  /** Whether the disk should be waited for before more is given. */
  get isBehind(): boolean {
    return !this.destroyed && this.writableNeedDrain
  }

  /** Called whenever it is no longer behind, be it that it has given up. */
  onRelief(fn: () => void): void {
    this.#onRelief = fn
  }

  take(chunk: Buffer): void {
    if (this.destroyed || this.#isWhole) return
    this.#taken += chunk.length
    const isTooMuch = this.#taken > this.#parts.mostBytes || this.writableLength > MOST_UNWRITTEN * 2
    if (isTooMuch) this.#giveUp()
    else if (!this.write(chunk)) this.#wait()
  }

  /** The server has said all of it. */
  finish(): void {
    if (this.destroyed || this.#isWhole) return
    this.#isWhole = true
    this.end()
  }

  /** Forgets it, unless it is whole. */
  drop(): void {
    if (!this.#isWhole) this.destroy()
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
    this.#cancelWait = clock.after(this.#patienceMs, () => this.#giveUp())
    this.once('drain', () => {
      this.#cancelWait()
      this.#waitsSince = undefined
      this.#patienceMs = Math.max(0, this.#patienceMs - (clock.now() - since))
      this.#onRelief()
    })
  }

  /** A disk that hangs would keep what follows from being said. */
  #giveUp(): void {
    this.destroy()
    this.#onRelief()
  }

  async #append(chunks: readonly Buffer[]): Promise<void> {
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    for (const chunk of chunks) this.#hash.update(chunk)
    const result = await this.#file?.writev(chunks, HEAD_BYTES + this.#written)
    if (result?.bytesWritten !== length)
      throw Object.assign(new Error('the disk took a part'), { code: 'ENOSPC' })
    this.#written += length
  }

  async #complete(): Promise<void> {
    const { answer, draft, path, onKept } = this.#parts
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
    this.#isKept = true
    onKept(HEAD_BYTES + this.#written)
  }

  /** Waits for what is being written. */
  async #clear(): Promise<void> {
    await this.#file?.close()
    if (this.#file && !this.#isKept) await rm(this.#parts.draft, { force: true })
  }
}
