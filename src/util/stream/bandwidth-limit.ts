/** A limit on the bytes a second that several streams move together. */
import { Duplex } from 'node:stream'
import { type Clock, systemClock } from '../clock.ts'

/** What may pass at once, in seconds of the rate. */
const BURST_S = 0.25

/** A token bucket: bytes are taken on credit, and wait until they are paid for. */
export class TokenBucket {
  readonly #perMs: number
  readonly #burst: number
  readonly #clock: Clock
  #tokens: number
  #at: number

  constructor(bytesPerSecond: number, clock: Clock = systemClock) {
    this.#perMs = bytesPerSecond / 1000
    this.#burst = bytesPerSecond * BURST_S
    this.#clock = clock
    this.#tokens = this.#burst
    this.#at = clock.now()
  }

  /** Calls `onPaid` when the bytes may pass, perhaps at once. Returns a function that cancels the call. */
  take(bytes: number, onPaid: () => void): () => void {
    const now = this.#clock.now()
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, now - this.#at) * this.#perMs)
    this.#at = now
    this.#tokens -= bytes
    if (this.#tokens < 0) return this.#clock.after(Math.ceil(-this.#tokens / this.#perMs), onPaid)
    onPaid()
    return () => undefined
  }
}

/** The limit of one sandbox: the same rate in each direction, for all its streams together. */
export class BandwidthLimit {
  readonly #read: TokenBucket
  readonly #written: TokenBucket

  constructor(bytesPerSecond: number, clock: Clock = systemClock) {
    this.#read = new TokenBucket(bytesPerSecond, clock)
    this.#written = new TokenBucket(bytesPerSecond, clock)
  }

  /** A stream with the bytes of `inner`, at the pace of the limit. Each is destroyed with the other. */
  over(inner: Duplex): Duplex {
    return new PacedStream(inner, this.#read, this.#written)
  }
}

class PacedStream extends Duplex {
  readonly #inner: Duplex
  readonly #written: TokenBucket
  #cancelRead: () => void = () => undefined
  #cancelWrite: () => void = () => undefined

  constructor(inner: Duplex, read: TokenBucket, written: TokenBucket) {
    super({ allowHalfOpen: true })
    this.#inner = inner
    this.#written = written
    let isWaiting = false
    const pushEnd = (): void => {
      if (inner.readableEnded && !isWaiting) this.push(null)
    }
    inner.on('data', (chunk: Buffer) => {
      inner.pause()
      isWaiting = true
      this.#cancelRead = read.take(chunk.length, () => {
        isWaiting = false
        if (this.push(chunk)) inner.resume()
        pushEnd()
      })
    })
    inner.once('end', pushEnd)
    inner.once('error', (error) => this.destroy(error))
    // After its end, bytes may still wait for their turn.
    inner.once('close', () => {
      if (!inner.readableEnded) this.destroy()
    })
    inner.pause()
  }

  override _read(): void {
    this.#inner.resume()
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#cancelWrite = this.#written.take(chunk.length, () => {
      this.#inner.write(chunk, done)
    })
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#inner.end(() => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#cancelRead()
    this.#cancelWrite()
    this.#inner.destroy()
    done(error)
  }
}
