/**
 * The data plane: requests that name a sandbox in a header pass to its guest as they are, streamed both ways. This is the
 * hot path of every exec, so it stands before the router and asks no database.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { posix } from 'node:path'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError, invalid } from '../core/error.ts'
import type { Engine } from '../engine/engine.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import { errorBody } from './error-response.ts'

export const SANDBOX_HEADER = 'agentpod-sandbox'

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
])

export interface DataPlane {
  /** Takes the request if it names a sandbox. */
  handle(request: IncomingMessage, response: ServerResponse): boolean
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean
}

export function dataPlane(engine: Engine, log: Log): DataPlane {
  return {
    handle(request, response) {
      const ref = request.headers[SANDBOX_HEADER]
      if (typeof ref !== 'string') return false
      forward(engine, ref, request, response).catch((error) => {
        if (response.headersSent || response.destroyed) response.destroy()
        else answerError(response, error)
      })
      return true
    },
    upgrade(request, socket, head) {
      const ref = request.headers[SANDBOX_HEADER]
      if (typeof ref !== 'string') return false
      tunnel(engine, ref, request, socket, head).catch((error) => {
        ignore(log, error, 'a tunnel was refused')
        const { status, body } = errorBody(error)
        socket.end(
          `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n${JSON.stringify(body)}`,
        )
      })
      return true
    },
  }
}

async function forward(
  engine: Engine,
  ref: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = request.url ?? '/'
  refuseEngineOnly(path)
  const { guest, ended } = engine.live(ref)
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort()
  })
  const hasBody =
    request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
  const answer = await guest.forward(
    {
      method: request.method ?? 'GET',
      path,
      headers: passing(request.headers),
      body: hasBody ? request : undefined,
    },
    { signal: AbortSignal.any([gone.signal, ended.signal]) },
  )
  response.writeHead(answer.status, passing(answer.headers))
  // A first frame must not wait for the second to fill a buffer.
  response.flushHeaders()
  await pipeline(answer.body, response)
}

async function tunnel(
  engine: Engine,
  ref: string,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://sandbox')
  const port = Number(url.searchParams.get('port'))
  if (url.pathname !== '/agentpod/tunnel' || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw invalid('tunnel.malformed', 'a tunnel is /agentpod/tunnel?port=1..65535')
  }
  const { guest, ended } = engine.live(ref)
  const inside = await guest.dial(port, { signal: ended.signal, timeoutMs: 10_000 })
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: agentpod-tunnel\r\n\r\n')
  if (head.length > 0) inside.write(head)
  const cut = (): void => {
    inside.destroy()
    socket.destroy()
  }
  ended.signal.addEventListener('abort', cut, { once: true })
  try {
    await Promise.all([pipeline(socket, inside), pipeline(inside, socket)])
  } finally {
    ended.signal.removeEventListener('abort', cut)
    cut()
  }
}

/**
 * SECURITY: the guest's parser is another one than ours. Only a path in its plain form passes (`https:///agentpod/init` is
 * `/init` here and `/agentpod/init` there), and every spelling of an engine's path is refused, whether or not the guest
 * would take it.
 */
function refuseEngineOnly(path: string): void {
  const pathname = decoded(path.split('?', 1)[0] ?? '')
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

function passing(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !HOP_BY_HOP.has(name)) kept[name] = value
  }
  return kept
}

function answerError(response: ServerResponse, thrown: unknown): void {
  const { status, body } = errorBody(thrown)
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}
