/** One connection to podd inside an HTTP/2 stream (spec/guest-protocol.md, "Transports"). */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2'
import { Duplex } from 'node:stream'

const HEAD_BYTES = 4
/** podd sends no record that is longer. */
const LONGEST_RECORD_BYTES = 64 * 1024
const NOTHING: Buffer = Buffer.alloc(0)

/** Opens a CONNECT stream and waits until podd has accepted it. */
export function openMultiplexed(
  session: ClientHttp2Session,
  door: string,
  signal: AbortSignal,
): Promise<MultiplexedConnection> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const stream = session.request({ ':method': 'CONNECT', ':authority': door }, { endStream: false })
    const giveUp = (error: unknown): void => {
      signal.removeEventListener('abort', onAbort)
      stream.on('error', () => undefined)
      stream.close(constants.NGHTTP2_CANCEL)
      reject(error)
    }
    const onAbort = (): void => giveUp(signal.reason)
    const onClose = (): void => giveUp(new Error('the connection was lost'))
    signal.addEventListener('abort', onAbort, { once: true })
    stream.once('error', giveUp)
    stream.once('close', onClose)
    stream.once('response', (headers: IncomingHttpHeaders) => {
      const status: unknown = headers[':status']
      if (status !== 200) return giveUp(new Error(`podd refused a stream to ${door} (${status})`))
      signal.removeEventListener('abort', onAbort)
      stream.off('error', giveUp)
      stream.off('close', onClose)
      resolve(new MultiplexedConnection(stream))
    })
  })
}

/**
 * podd sends its data in records, so that it can end its direction and keep reading. A stream that ends
 * without the final record was cut, which is an error.
 */
export class MultiplexedConnection extends Duplex {
  readonly #stream: ClientHttp2Stream
  readonly #records = new RecordReader()

  constructor(stream: ClientHttp2Stream) {
    super({ allowHalfOpen: true })
    this.#stream = stream
    // SECURITY: a sandbox can break a stream before its owner listens, which must not end the server.
    this.on('error', () => undefined)
    // No data is read before the reader asks for it.
    stream.pause()
    stream.on('data', (chunk: Buffer) => this.#receive(chunk))
    // Node's HTTP client hangs on a socket that is destroyed before it adds its listeners, a few ticks after
    // it gets it.
    stream.on('error', (error) => setImmediate(() => this.destroy(error)))
    stream.once('close', () => setImmediate(() => this.#closed()))
  }

  override _read(): void {
    this.#stream.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#stream.destroyed) done(cutShort())
    else if (this.#stream.write(chunk)) done()
    else this.#stream.once('drain', done)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#stream.destroyed) done()
    else this.#stream.end(() => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const isWhole = this.#records.isOver && this.writableFinished
    if (isWhole) this.#stream.resume()
    else this.#stream.close(constants.NGHTTP2_CANCEL)
    done(error)
  }

  /**
   * Methods of a socket that Node's HTTP client calls. They do nothing: the whole HTTP/2 connection closes
   * when idle.
   */
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
  setKeepAlive(): this {
    return this
  }
  setNoDelay(): this {
    return this
  }
  setTimeout(): this {
    return this
  }

  #receive(chunk: Buffer): void {
    try {
      for (const part of this.#records.push(chunk)) if (!this.push(part)) this.#stream.pause()
    } catch (error) {
      this.destroy(error as Error)
      return
    }
    // The end of the stream follows the last record, and is only seen when it is read.
    if (this.#records.isOver) this.#stream.resume()
  }

  #closed(): void {
    if (!this.#records.isOver) this.destroy(cutShort())
    else if (this.readableEnded) this.destroy()
    else this.once('end', () => this.destroy())
  }
}

/** Splits the stream into records. A record of length 0 is the end. */
class RecordReader {
  isOver = false
  #left = 0
  #head = NOTHING

  /** The content in a chunk; null marks the end. */
  push(chunk: Buffer): (Buffer | null)[] {
    const parts: (Buffer | null)[] = []
    for (let rest = chunk; rest.length > 0; ) {
      if (this.isOver) throw new Error('podd sent data after its end')
      const part = rest.subarray(0, this.#left || HEAD_BYTES - this.#head.length)
      rest = rest.subarray(part.length)
      if (this.#left > 0) {
        this.#left -= part.length
        parts.push(part)
      } else if (this.#isLastHead(part)) {
        parts.push(null)
      }
    }
    return parts
  }

  /** Reads the length of the next record, or a part of it. */
  #isLastHead(part: Buffer): boolean {
    const head = this.#head.length > 0 ? Buffer.concat([this.#head, part]) : part
    this.#head = head.length < HEAD_BYTES ? head : NOTHING
    if (head.length < HEAD_BYTES) return false
    this.#left = head.readUInt32BE()
    if (this.#left > LONGEST_RECORD_BYTES) throw new Error('podd sent a record that is too long')
    this.isOver = this.#left === 0
    return this.isOver
  }
}

function cutShort(): Error {
  return Object.assign(new Error('the connection into the sandbox was cut'), { code: 'ECONNRESET' })
}
