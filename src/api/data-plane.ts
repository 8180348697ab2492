/**
 * The data plane: requests for the inside of a sandbox pass to its guest as they are, streamed both ways, or are translated
 * where the guest does not speak envd's protocol. This is the hot path of every exec, so it stands before the router and
 * asks no database.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { posix } from 'node:path'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError, invalid } from '../core/error.ts'
import { LOCAL } from '../core/principal.ts'
import type { Live } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { errorBody, retryAfter } from './error-response.ts'
import { pour } from './pour.ts'
import { traceOf } from './trace.ts'
import { lookIn, WAKE_HEADER, wake } from './way-in.ts'

export const SANDBOX_HEADER = 'agentpod-sandbox'

/** Tells the guest by whose rules a file call acts: ours, as the user alone, or E2B's, which reach further where the sandbox has sudo. */
const FILE_RULES_HEADER = 'agentpod-file-rules'
export type FileRules = 'agentpod' | 'e2b'

/** SECURITY: these set a sandbox's identity and lifetime and are the engine's alone. */
const ENGINE_ONLY = new Set(['/agentpod/init', '/agentpod/lease'])

/** Belong to one connection, not to the message. */
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

/** SECURITY: CP-12. What opened the door stays outside: a sandbox must not learn a key or a token from a request. */
const CREDENTIALS = new Set(['x-api-key', 'x-access-token', 'e2b-traffic-access-token'])

/**
 * SECURITY: CP-09. A file of a sandbox is the sandbox's bytes on an origin that is ours: a browser that opens one gives it no
 * origin, runs nothing of it and guesses no type.
 */
const AS_DATA = {
  'content-security-policy': "sandbox; default-src 'none'",
  'x-content-type-options': 'nosniff',
}

/** One listener's way to handle what comes in. */
export interface Door {
  handle(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

export type Control = (request: IncomingMessage, response: ServerResponse) => unknown

/** The door of the unix socket: whoever could open it is the local user, and needs no key. */
export function localDoor(engine: Engine, control: Control, log: Log): Door {
  const look = (ref: string, request: IncomingMessage): Live | undefined =>
    lookIn(engine, ref, LOCAL, request)
  return {
    handle(request, response) {
      const ref = request.headers[SANDBOX_HEADER]
      attempt(response, async () => {
        if (typeof ref !== 'string') return void (await control(request, response))
        const live = look(ref, request) ?? (await wake(engine, ref, LOCAL, request))
        return forwardToGuest(live, request, response)
      })
    },
    upgrade(request, socket, head) {
      const ref = request.headers[SANDBOX_HEADER]
      attemptUpgrade(socket, log, async () => {
        if (typeof ref !== 'string') throw invalid('upgrade.unknown', 'nothing here takes an upgrade')
        const live = look(ref, request) ?? (await wake(engine, ref, LOCAL, request))
        await tunnelToGuest(live, request, socket, head)
      })
    },
  }
}

/** Does the work, or answers its error; a response under way is cut instead, so that nobody takes it for whole. */
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

export async function forwardToGuest(
  live: Live,
  request: IncomingMessage,
  response: ServerResponse,
  fileRules: FileRules = 'agentpod',
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
    headers: { ...passing(request.headers), [FILE_RULES_HEADER]: fileRules },
    body: hasBody(request) ? request : undefined,
  }
  const o = { signal: AbortSignal.any([gone.signal, ended.signal]) }
  const answer = await (guest.passThrough ? guest.passThrough(asked, o) : live.envd.handle(asked, o))
  failpoint('exec.forwarded')
  const { 'set-cookie': _, ...headers } = passing(answer.headers)
  response.writeHead(answer.status, { ...headers, ...AS_DATA })
  // A first frame must not wait for the second to fill a buffer.
  response.flushHeaders()
  await pour(answer.body, response)
}

export function hasBody(request: IncomingMessage): boolean {
  return request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
}

export async function tunnelToGuest(
  live: Live,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://sandbox')
  const port = Number(url.searchParams.get('port'))
  if (url.pathname !== '/agentpod/tunnel' || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw invalid('tunnel.malformed', 'a tunnel is /agentpod/tunnel?port=1..65535')
  }
  const inside = await live.guest.dial(port, { signal: live.ended.signal, timeoutMs: DIAL_TIMEOUT_MS })
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: agentpod-tunnel\r\n\r\n')
  if (head.length > 0) inside.write(head)
  await join(live, socket, inside)
}

export const DIAL_TIMEOUT_MS = 10_000

/** Carries bytes both ways until either side is done or the sandbox ends. */
export async function join(live: Live, outside: Duplex, inside: Duplex): Promise<void> {
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
 * SECURITY: the guest's parser is another one than ours. Only a path in its plain form passes (`https:///agentpod/init` is
 * `/init` here and `/agentpod/init` there), and every spelling of an engine's path is refused, whether or not the guest
 * would take it.
 */
function refuseEngineOnly(path: string): void {
  const pathname = decoded(path.split(/[?#]/, 1)[0] ?? '')
  if (!pathname.startsWith('/')) throw invalid('path.malformed', 'a path begins with one slash')
  const plain = posix.normalize(pathname.replaceAll('\\', '/')).replace(/\/$/, '').toLowerCase()
  if (ENGINE_ONLY.has(plain)) {
    throw new AgentPodError({
      code: 'permission_denied',
      reason: 'guest.engine_only',
      message: `${plain} is not for clients`,
      hint: 'use /v1/sandboxes to change a sandbox',
    })
  }
}

function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname)
  } catch {
    throw invalid('path.malformed', 'a path with a broken %-encoding')
  }
}

export function passing(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !HOP_BY_HOP.has(name) && !CREDENTIALS.has(name)) kept[name] = value
  }
  return kept
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
