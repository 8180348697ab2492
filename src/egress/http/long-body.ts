/**
 * The body of a long response, past Node's parser. The parser copies each piece of a body, and collecting the
 * copies takes as long as the transfer. The head was parsed and has the length, so the bytes need not be
 * looked at. INVARIANT: exactly as many bytes are forwarded as the head announced, and the connection is not
 * used again.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ReadingSocket } from '../reach/reading-socket.ts'

/** Shorter bodies leave a connection that can be used again. */
const LONG_BYTES = 512 * 1024
const LENGTH = /^[1-9][0-9]{0,14}$/
const WITH_BODY: readonly number[] = [200, 206]

export interface LongBody {
  readonly incoming: IncomingMessage
  readonly res: ServerResponse
  readonly socket: ReadingSocket
  readonly length: number
}

/** Undefined if the body is short, or is not simply the next bytes of the connection. */
export function longBodyOf(
  incoming: IncomingMessage,
  res: ServerResponse,
  method: string,
): LongBody | undefined {
  const { socket, headers, statusCode = 0 } = incoming
  const written = headers['content-length'] ?? ''
  if (!(socket instanceof ReadingSocket) || headers['transfer-encoding'] !== undefined) return undefined
  if (method === 'HEAD' || !WITH_BODY.includes(statusCode) || !LENGTH.test(written)) return undefined
  const length = Number(written)
  return length >= LONG_BYTES ? { incoming, res, socket, length } : undefined
}

export interface TransferEvents {
  /** Called before bytes are forwarded; false if they must not be. */
  onBytes(bytes: number): boolean
  /** All bytes were written to the response. */
  onComplete(): void
  /** The server ended before that. */
  onCut(): void
}

export function transferLongBody({ incoming, res, socket, length }: LongBody, events: TransferEvents): void {
  let left = length
  const onGone = (): void => {
    if (left > 0) events.onCut()
  }
  const forward = (bytes: Buffer, onWritten: () => void): void => {
    const some = bytes.subarray(0, left)
    if (!events.onBytes(some.length)) return
    left -= some.length
    res.write(some, onWritten)
    if (left === 0) events.onComplete()
  }
  socket.once('end', onGone).once('close', onGone)
  // The parser has the rest of the read that ended the head.
  process.nextTick(() => {
    const parsed = incoming.read() as Buffer | null
    socket.takeOver((bytes) => {
      if (left > 0) forward(bytes, () => socket.continueReading())
      return 'kept'
    })
    if (parsed) forward(parsed, () => socket.continueReading())
    else socket.continueReading()
  })
}
