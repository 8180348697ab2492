/** A refusal as the answer to a request. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../util/clock.ts'
import { flat } from './http-head.ts'
import { phraseOf, type Refusal, refusalHeaders, refusalResponse, refusalText } from './refusal.ts'

/** How long the rest of a refused request is read, so that its sender comes to read the answer. */
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

/** Ends a stream with last words, and reads on for a moment for the same reason. */
export function endWith(stream: Duplex, words: string | Buffer, clock: Clock): void {
  if (stream.destroyed) return
  const cancel = clock.after(LINGER_MS, () => stream.destroy())
  stream.on('error', () => stream.destroy())
  stream.once('close', cancel)
  stream.once('end', () => stream.destroy())
  stream.end(words)
  stream.resume()
}

export function endWithRefusal(stream: Duplex, refusal: Refusal, clock: Clock): void {
  endWith(stream, refusalResponse(refusal), clock)
}
