/**
 * A socket that reads into the same memory again and again. Node's own sockets allocate 64 KiB for each read,
 * and collecting those takes longer than copying the bytes. Until a reader takes the bytes over, it is an
 * ordinary stream, for which the bytes are copied.
 */
import { type NetConnectOpts, Socket } from 'node:net'
import { Duplex } from 'node:stream'

/**
 * Receives bytes that are valid until it returns. If it keeps them longer it returns `kept`; then nothing is
 * read until `continueReading`, and the bytes stay valid until that.
 */
export type TakeBytes = (bytes: Buffer) => 'done' | 'kept'

const SHARED_BYTES = 64 * 1024
/** A read that fills this much of the shared memory belongs to a transfer, which gets memory of its own. */
const MUCH_BYTES = 16 * 1024
const OWN_BYTES = 128 * 1024
/** After so many short reads in sequence, a transfer returns to the shared memory. */
const SHORT_READS = 64

/** Holds bytes only while one read is handled. INVARIANT: nothing that outlives that refers to it. */
const shared = Buffer.allocUnsafeSlow(SHARED_BYTES)

export type ReadingSocketOptions = NetConnectOpts & {
  readonly allowHalfOpen?: boolean
  readonly noDelay?: boolean
  readonly highWaterMark?: number
}

export class ReadingSocket extends Socket {
  readonly #reads: Reads

  constructor(options: ReadingSocketOptions) {
    const reads = new Reads()
    const onread = {
      buffer: () => reads.memory,
      callback: (length: number, memory: Uint8Array) => reads.receive(this, length, memory as Buffer),
    }
    super({ ...options, onread })
    this.#reads = reads
  }

  /**
   * Gives the bytes to `take` from here on, without copying them. False if an earlier reader left bytes in
   * the stream: the caller must read them first.
   */
  takeOver(take: TakeBytes): boolean {
    if (this.readableLength > 0) return false
    this.#reads.take = take
    return true
  }

  /**
   * For listeners of `data` that use the bytes before they return: they are not copied. A listener that
   * pauses the stream gets nothing more until it resumes it.
   */
  lendBytes(): void {
    this.takeOver((bytes) => {
      this.emit('data', bytes)
      return this.isPaused() ? 'kept' : 'done'
    })
  }

  /** Continues after `take` kept bytes. */
  continueReading(): void {
    if (!this.destroyed) this.resume()
  }

  /** Node would stop to read at once, and a stream that waits for bytes would not start again. */
  override pause(): this {
    return Duplex.prototype.pause.call(this) as this
  }
}

class Reads {
  take: TakeBytes | undefined
  #own: Buffer | undefined
  #shortReads = 0

  /** The memory of the next read. */
  get memory(): Buffer {
    return this.#own ?? shared
  }

  /** Returns whether to read on. */
  receive(socket: ReadingSocket, length: number, memory: Buffer): boolean {
    const bytes = memory.subarray(0, length)
    // Only bytes in memory of its own may be kept by the reader.
    if (!this.take) return socket.push(Buffer.from(bytes))
    this.#measure(length)
    return this.take(memory === shared ? Buffer.from(bytes) : bytes) === 'done'
  }

  #measure(length: number): void {
    if (!this.#own) {
      if (length >= MUCH_BYTES) this.#own = Buffer.allocUnsafeSlow(OWN_BYTES)
      return
    }
    this.#shortReads = length < MUCH_BYTES ? this.#shortReads + 1 : 0
    if (this.#shortReads < SHORT_READS) return
    this.#own = undefined
    this.#shortReads = 0
  }
}
