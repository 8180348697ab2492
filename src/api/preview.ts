/** A port inside a sandbox as a web page outside: HTTP, streams and WebSockets, through the guest's tunnel. */
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError } from '../core/error.ts'
import type { Live } from '../engine/context.ts'
import { DIAL_TIMEOUT_MS, hasBody, join, passing } from './data-plane.ts'

/** The cookie that opens a private port to a browser. */
export const PREVIEW_COOKIE = 'agentpod_preview'

/** Where E2B's users want the port in a masked host. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the braces are E2B's.
const PORT = '${PORT}'

export interface PreviewTarget {
  readonly live: Live
  readonly port: number
  /** What the program inside is told as the Host, where it is not what was sent; `${PORT}` stands for the port. */
  readonly maskHost?: string | undefined
}

export async function preview(
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
    // An answer that switches protocols to a request that did not ask for it.
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

/** A program inside that hangs up or talks nonsense is no failure of ours. */
function broken(port: number, cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'port.broken',
    message: `what listens on port ${port} gave no proper answer`,
    cause,
  })
}

/**
 * SECURITY: CP-09. A page's cookies are its own host's: not its neighbours' below the same domain, and never the one that lets
 * visitors in.
 */
function fromInside(answer: IncomingMessage): Record<string, string | string[]> {
  const { 'set-cookie': cookies, ...headers } = passing(answer.headers)
  const kept = [cookies ?? []]
    .flat()
    .filter((cookie) => !cookie.trimStart().startsWith(`${PREVIEW_COOKIE}=`))
    .map((cookie) => cookie.replaceAll(/;\s*domain\s*=[^;]*/gi, ''))
  return kept.length > 0 ? { ...headers, 'set-cookie': kept } : headers
}

/** An upgrade goes through as the browser sent it; from then on it is bytes. */
export async function previewUpgrade(
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
  await join(target.live, socket, inside)
}

function dial({ live, port }: PreviewTarget): Promise<Duplex> {
  return live.guest.dial(port, { signal: live.ended.signal, timeoutMs: DIAL_TIMEOUT_MS })
}

function forwarded(
  request: IncomingMessage,
  { port, maskHost }: PreviewTarget,
): Record<string, string | string[]> {
  const { cookie, ...rest } = passing(request.headers)
  const kept = withoutOurs(typeof cookie === 'string' ? cookie : undefined)
  return {
    ...rest,
    host: maskHost?.replaceAll(PORT, String(port)) ?? request.headers.host ?? 'localhost',
    'x-forwarded-host': request.headers.host ?? 'localhost',
    'x-forwarded-proto': 'encrypted' in request.socket ? 'https' : 'http',
    ...(kept && { cookie: kept }),
  }
}

/** SECURITY: CP-09. The page inside never sees the cookie that let its visitor in. */
function withoutOurs(cookie: string | undefined): string | undefined {
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
