import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'
import { traceOfContext } from './trace.ts'

/**
 * Writes to the connection directly, because Hono's adapter would end a body that fails early as if it were
 * complete. Here a stream that fails is cut, so that the client cannot mistake it for the whole content.
 */
export function sendStream(
  c: Context,
  content: Readable,
  headers: Readonly<Record<string, string>>,
): Response {
  const { outgoing } = c.env as { readonly outgoing: ServerResponse }
  const trace = traceOfContext(c)
  outgoing.writeHead(200, headers)
  pipeline(content, outgoing).catch((error: NodeJS.ErrnoException) => {
    // It is not an error if the client disconnects.
    if (trace && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') trace.error = error
    content.destroy()
    outgoing.destroy()
  })
  return RESPONSE_ALREADY_SENT
}
