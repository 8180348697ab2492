/**
 * The data plane: forwards requests for the inside of a sandbox to its guest, streamed both ways. A guest
 * that does not speak envd's protocol gets them translated. This is the hot path of every exec, so it does
 * not go through the router and reads no database.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { posix } from 'node:path'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError, invalid } from '../../core/error.ts'
import type { GuestConnection } from '../../engine/context.ts'
import { failpoint } from '../../util/failpoint.ts'
import { ACCESS_TOKEN_HEADER, TRAFFIC_TOKEN_HEADER } from '../e2b/headers.ts'
import { streamBody } from '../http/stream-body.ts'
import { traceOf } from '../http/trace.ts'
import { WAKE_HEADER } from './reach-guest.ts'

export const SANDBOX_HEADER = 'agentpod-sandbox'

/**
 * Tells the guest which rules a file call follows. `agentpod`: it acts as the user, with the user's rights
 * only.
 */
const FILE_RULES_HEADER = 'agentpod-file-rules'
const OWN_FILE_RULES = 'agentpod'

/** SECURITY: these set a sandbox's identity and lifetime. Only the engine may call them. */
const ENGINE_ONLY = new Set(['/agentpod/init', '/agentpod/root', '/agentpod/lease'])

/** Headers of one connection, not of the message, and AgentPod's own. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  SANDBOX_HEADER,
  WAKE_HEADER,
  FILE_RULES_HEADER,
])

/**
 * SECURITY: CP-12. Credentials are not forwarded: a sandbox must not learn a key or a token from a request.
 */
const CREDENTIALS = new Set(['x-api-key', ACCESS_TOKEN_HEADER, TRAFFIC_TOKEN_HEADER])

/**
 * SECURITY: CP-09. A file of a sandbox is untrusted content on our origin: a browser must give it no origin,
 * run no script of it and guess no type.
 */
const AS_DATA = {
  'content-security-policy': "sandbox; default-src 'none'",
  'x-content-type-options': 'nosniff',
}

export async function forwardToGuest(
  live: GuestConnection,
  request: IncomingMessage,
  response: ServerResponse,
  fileRules: string = OWN_FILE_RULES,
): Promise<void> {
  const path = request.url ?? '/'
  refuseEngineOnly(path)
  const trace = traceOf(response)
  if (trace) trace.route = 'data'
  const { guest, ended } = live
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort()
  })
  const asked = {
    method: request.method ?? 'GET',
    path,
    headers: { ...withoutCredentials(request.headers), [FILE_RULES_HEADER]: fileRules },
    body: hasBody(request) ? request : undefined,
  }
  const o = { signal: AbortSignal.any([gone.signal, ended.signal]) }
  const answer = await (guest.passThrough ? guest.passThrough(asked, o) : live.envd.handle(asked, o))
  failpoint('exec.forwarded')
  const { 'set-cookie': _, ...headers } = withoutCredentials(answer.headers)
  response.writeHead(answer.status, { ...headers, ...AS_DATA })
  // The first frame must not wait in a buffer for the second.
  response.flushHeaders()
  await streamBody(answer.body, response)
}

export function hasBody(request: IncomingMessage): boolean {
  return request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
}

export async function tunnelToGuest(
  live: GuestConnection,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://sandbox')
  const port = Number(url.searchParams.get('port'))
  if (url.pathname !== '/agentpod/tunnel' || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw invalid(
      'tunnel.malformed',
      'the path of a tunnel is /agentpod/tunnel?port=N, with N from 1 to 65535',
    )
  }
  const inside = await dialPort(live, port)
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: agentpod-tunnel\r\n\r\n')
  if (head.length > 0) inside.write(head)
  await joinStreams(live, socket, inside)
}

export const DIAL_TIMEOUT_MS = 10_000

/** Copies bytes both ways until either side closes or the sandbox ends. */
export async function joinStreams(live: GuestConnection, outside: Duplex, inside: Duplex): Promise<void> {
  const cut = (): void => {
    inside.destroy()
    outside.destroy()
  }
  live.ended.signal.addEventListener('abort', cut, { once: true })
  try {
    await Promise.all([pipeline(outside, inside), pipeline(inside, outside)])
  } catch {
    // Either side may hang up at any time.
  } finally {
    live.ended.signal.removeEventListener('abort', cut)
    cut()
  }
}

/**
 * SECURITY: the guest parses paths differently from Node (`https:///agentpod/init` is `/init` here and
 * `/agentpod/init` there). So a path must start with a slash, and every spelling of an engine's path is
 * refused, whether or not the guest would accept it.
 */
function refuseEngineOnly(path: string): void {
  const pathname = decoded(path.split(/[?#]/, 1)[0] ?? '')
  if (!pathname.startsWith('/')) throw invalid('path.malformed', 'the path must start with a slash')
  const plain = posix.normalize(pathname.replaceAll('\\', '/')).replace(/\/$/, '').toLowerCase()
  if (ENGINE_ONLY.has(plain)) {
    throw new AgentPodError({
      code: 'permission_denied',
      reason: 'guest.engine_only',
      message: `${plain} is reserved for the server`,
      hint: 'change a sandbox through /v1/sandboxes',
    })
  }
}

function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname)
  } catch {
    throw invalid('path.malformed', 'the path has an invalid percent-encoding')
  }
}

export function withoutCredentials(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !HOP_BY_HOP.has(name) && !CREDENTIALS.has(name)) kept[name] = value
  }
  return kept
}

/** A stream to a program inside, at the pace of the sandbox's bandwidth. */
export async function dialPort(
  { guest, ended, bandwidthLimit }: GuestConnection,
  port: number,
): Promise<Duplex> {
  const inside = await guest.dial(port, { signal: ended.signal, timeoutMs: DIAL_TIMEOUT_MS })
  return bandwidthLimit?.over(inside) ?? inside
}
