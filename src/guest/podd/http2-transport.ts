/** Wraps the stream below an HTTP/2 connection, because Node's HTTP/2 does not cope with its end. */
import { Duplex } from 'node:stream'

const DRAIN_MS = 10
/**
 * HTTP/2 stops reading while it waits for a write that may never finish, so we do not wait long for it to
 * read the rest.
 */
const MOST_DRAINS = 20

/**
 * Node 24 crashes with an internal assertion, or hangs, if the stream below HTTP/2 ends or fails during a
 * write. This stream never ends by itself: it stays open until it is destroyed, and calls `onLost` once when
 * the stream below has ended and its data has been read.
 */
export class Http2Transport extends Duplex {
  readonly #below: Duplex
  #onLost: (() => void) | undefined

  constructor(below: Duplex, onLost: () => void) {
    super()
    this.#below = below
    this.#onLost = onLost
    below.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) below.pause()
    })
    for (const event of ['end', 'close', 'error']) below.on(event, () => this.#lose(MOST_DRAINS))
    if (below.destroyed || below.readableEnded) setImmediate(() => this.#lose(0))
  }

  override _read(): void {
    this.#below.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#below.write(chunk, () => done())
  }

  override _final(done: () => void): void {
    this.#below.destroy()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#onLost = undefined
    this.#below.destroy()
    done(error)
  }

  #lose(tries: number): void {
    if (this.readableLength > 0 && tries > 0) {
      setTimeout(() => this.#lose(tries - 1), DRAIN_MS)
      return
    }
    const tell = this.#onLost
    this.#onLost = undefined
    tell?.()
  }
}
