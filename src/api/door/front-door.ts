/** What every listener has in common: how it handles a request or an upgrade, and how it answers an error. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { ignore, type Log } from '../../telemetry/log.ts'
import { errorBody, retryAfter } from '../http/error-response.ts'
import { traceOf } from '../http/trace.ts'

/** Handles the requests of one listener. */
export interface FrontDoor {
  handle(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

/** Handles a request for the API's own routes. */
export type ControlPlane = (request: IncomingMessage, response: ServerResponse) => unknown

/**
 * Does the work, or answers its error. If the response has already started it is cut off, so that the client
 * cannot mistake it for complete.
 */
export function attempt(
  response: ServerResponse,
  work: () => Promise<void>,
  answer: (response: ServerResponse, error: unknown) => void = answerError,
): void {
  work().catch((error) => {
    const trace = traceOf(response)
    if (trace) trace.error = error
    if (response.headersSent || response.destroyed) response.destroy()
    else {
      const wait = retryAfter(error)
      if (wait !== undefined) response.setHeader('retry-after', wait)
      answer(response, error)
    }
  })
}

export function attemptUpgrade(socket: Duplex, log: Log, work: () => Promise<void>): void {
  work().catch((error) => {
    ignore(log, error, 'an upgrade was refused or ended')
    const { status, body } = errorBody(error)
    const text = JSON.stringify(body)
    // SECURITY: CP-16. A client that never closes its half would keep the socket.
    socket.end(
      `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close\r\n\r\n${text}`,
      () => socket.destroy(),
    )
  })
}

export function answerError(response: ServerResponse, thrown: unknown): void {
  const { status, body } = errorBody(thrown)
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}

/** The path of a request without its query. */
export function requestPath(request: IncomingMessage): string {
  return (request.url ?? '/').split('?', 1)[0] ?? '/'
}
