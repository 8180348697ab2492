/** Forwards HTTP requests, streams and WebSockets to a port inside a sandbox, through the guest's tunnel. */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError } from '../../core/error.ts'
import type { GuestConnection } from '../../engine/context.ts'
import { dialPort, hasBody, joinStreams, withoutCredentials } from './forward-to-guest.ts'

/** The cookie by which a browser may use a private port. */
export const PREVIEW_COOKIE = 'agentpod_preview'

/** Replaced by the port in `maskHost`. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: this is the placeholder itself.
const PORT = '${PORT}'

export interface PreviewTarget {
  readonly live: GuestConnection
  readonly port: number
  /** The Host header that the program inside gets instead of the client's; `${PORT}` stands for the port. */
  readonly maskHost?: string | undefined
}

export async function forwardToPort(
  target: PreviewTarget,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const inside = await dial(target)
  const gone = new AbortController()
  response.once('close', () => {
    gone.abort()
    inside.destroy()
  })
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = httpRequest({
      createConnection: () => inside as never,
      method: request.method,
      path: request.url,
      headers: { ...forwarded(request, target), connection: 'close' },
      signal: AbortSignal.any([gone.signal, target.live.ended.signal]),
      setHost: false,
    })
    outgoing.once('response', resolve)
    outgoing.once('error', (error) => reject(broken(target.port, error)))
    // The program switches protocols although the request did not ask for it.
    outgoing.once('upgrade', (_, socket) => {
      socket.destroy()
      reject(broken(target.port))
    })
    if (hasBody(request)) request.pipe(outgoing)
    else outgoing.end()
  })
  response.writeHead(answer.statusCode ?? 502, fromInside(answer))
  response.flushHeaders()
  await pipeline(answer, response)
}

/** The program inside closed the connection or sent no valid HTTP; the server itself is fine. */
function broken(port: number, cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'port.broken',
    message: `the program on port ${port} sent no valid HTTP response`,
    cause,
  })
}

/**
 * SECURITY: CP-09. A page may set cookies for its own host only: not for other sandboxes of the same domain,
 * and never the cookie that opens a private port.
 */
function fromInside(answer: IncomingMessage): Record<string, string | string[]> {
  const { 'set-cookie': cookies, ...headers } = withoutCredentials(answer.headers)
  const kept = [cookies ?? []]
    .flat()
    .filter((cookie) => !cookie.trimStart().startsWith(`${PREVIEW_COOKIE}=`))
    .map((cookie) => cookie.replaceAll(/;\s*domain\s*=[^;]*/gi, ''))
  return kept.length > 0 ? { ...headers, 'set-cookie': kept } : headers
}

/** Sends the upgrade as the browser sent it, and copies bytes from then on. */
export async function forwardUpgradeToPort(
  target: PreviewTarget,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const inside = await dial(target)
  const headers = {
    ...forwarded(request, target),
    connection: 'upgrade',
    upgrade: request.headers.upgrade ?? '',
  }
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((one) => `${name}: ${one}`),
  )
  inside.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
  if (head.length > 0) inside.write(head)
  await joinStreams(target.live, socket, inside)
}

function dial({ live, port }: PreviewTarget): Promise<Duplex> {
  return dialPort(live, port)
}

function forwarded(
  request: IncomingMessage,
  { port, maskHost }: PreviewTarget,
): Record<string, string | string[]> {
  const { cookie, ...rest } = withoutCredentials(request.headers)
  const kept = withoutPreviewCookie(typeof cookie === 'string' ? cookie : undefined)
  return {
    ...rest,
    host: maskHost?.replaceAll(PORT, String(port)) ?? request.headers.host ?? 'localhost',
    'x-forwarded-host': request.headers.host ?? 'localhost',
    'x-forwarded-proto': 'encrypted' in request.socket ? 'https' : 'http',
    ...(kept && { cookie: kept }),
  }
}

/** SECURITY: CP-09. The program inside never sees the cookie that opens its port. */
function withoutPreviewCookie(cookie: string | undefined): string | undefined {
  const kept = cookie
    ?.split(';')
    .map((pair) => pair.trim())
    .filter((pair) => !pair.startsWith(`${PREVIEW_COOKIE}=`))
  return kept && kept.length > 0 ? kept.join('; ') : undefined
}

export function previewCookie(request: IncomingMessage): string | undefined {
  const pair = request.headers.cookie
    ?.split(';')
    .map((one) => one.trim())
    .find((one) => one.startsWith(`${PREVIEW_COOKIE}=`))
  return pair?.slice(PREVIEW_COOKIE.length + 1)
}
