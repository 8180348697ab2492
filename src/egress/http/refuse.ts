/** Answers a request with a refusal. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../util/clock.ts'
import { phraseOf, type Refusal, refusalHeaders, refusalResponse, refusalText } from '../refusal.ts'
import { flat } from './head.ts'

/**
 * How long the rest of a refused request is read, because many clients only read the response after sending.
 */
const LINGER_MS = 1000

export function answerRefusal(
  { req, res, clock }: { readonly req: IncomingMessage; readonly res: ServerResponse; readonly clock: Clock },
  refusal: Refusal,
): void {
  if (res.destroyed) return
  if (res.headersSent) return void res.destroy()
  const body = refusalText(refusal)
  res.sendDate = false
  res.writeHead(refusal.status, phraseOf(refusal.status), flat(refusalHeaders(refusal, body)))
  if (req.complete) return void res.end(body)
  res.write(body)
  const finish = (): void => {
    cancel()
    res.end()
  }
  const cancel = clock.after(LINGER_MS, finish)
  req.once('end', finish).once('close', finish).on('error', finish).resume()
}

/** Ends a stream with the given bytes, and keeps reading for a moment for the same reason. */
export function endWith(stream: Duplex, bytes: string | Buffer, clock: Clock): void {
  if (stream.destroyed) return
  const cancel = clock.after(LINGER_MS, () => stream.destroy())
  stream.on('error', () => stream.destroy())
  stream.once('close', cancel)
  stream.once('end', () => stream.destroy())
  stream.end(bytes)
  stream.resume()
}

export function endWithRefusal(stream: Duplex, refusal: Refusal, clock: Clock): void {
  endWith(stream, refusalResponse(refusal), clock)
}
