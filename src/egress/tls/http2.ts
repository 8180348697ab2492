/**
 * HTTP/2 of clients. Each stream becomes one HTTP/1 request to our own engine, so that all checks exist once.
 * Requests to servers always use HTTP/1.1.
 */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Socket } from 'node:net'
import { Duplex, duplexPair } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import type { Via } from '../destination.ts'
import type { HttpEngine } from '../http/engine.ts'
import { type Header, pairs } from '../http/head.ts'
import type { Site } from '../http/request-target.ts'

export interface Http2Connection {
  readonly stream: TLSSocket
  readonly sandbox: SandboxEgress
  readonly site: Site
  readonly via: Via
  readonly http: HttpEngine
}

const MOST_STREAMS = 100
const LARGEST_LIST = 64 * 1024
const MOST_MEMORY_MB = 16
const IDLE_MS = 10 * 60_000

export function serveHttp2(streams: Http2Connection): void {
  // Node would read from the underlying handle and miss bytes that were read already.
  const plain = Duplex.from({ readable: streams.stream, writable: streams.stream })
  plain.on('error', () => streams.stream.destroy())
  const session: ServerHttp2Session = performServerHandshake(plain as Socket, {
    maxSessionMemory: MOST_MEMORY_MB,
    maxHeaderListPairs: 128,
    settings: { maxConcurrentStreams: MOST_STREAMS, maxHeaderListSize: LARGEST_LIST, enablePush: false },
  })
  session.setTimeout(IDLE_MS, () => session.destroy())
  session.on('error', () => session.destroy())
  session.once('close', () => streams.stream.destroy())
  streams.stream.once('close', () => session.destroy())
  session.on('stream', (stream, headers, flags, raw) => {
    // A reset stream emits an error; the exchange ends with the stream.
    stream.on('error', () => undefined)
    const isWithoutBody = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
    serveStream(streams, stream, { headers, raw: raw as unknown as string[], isWithoutBody })
  })
}

interface Asked {
  readonly headers: IncomingHttpHeaders
  readonly raw: readonly string[]
  readonly isWithoutBody: boolean
}

function serveStream(
  { sandbox, site, via, http }: Http2Connection,
  stream: ServerHttp2Stream,
  asked: Asked,
): void {
  const head = headOf(asked)
  if (!head) return void refuseStream(stream)
  const [inside, outside] = duplexPair()
  let exchange: ClientRequest
  try {
    exchange = request({
      createConnection: () => outside as never,
      method: head.method,
      path: head.path,
      headers: head.headers.flat(),
      setHost: false,
    })
  } catch {
    // Node refuses headers that HTTP/1 cannot express.
    outside.destroy()
    inside.destroy()
    return void refuseStream(stream)
  }
  http.serve({ stream: inside, sandbox, site, via })
  const end = (): void => {
    exchange.destroy()
    inside.destroy()
    outside.destroy()
  }
  stream.once('close', end)
  exchange.on('error', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
  exchange.on('response', (answer) => sendAnswer(stream, answer))
  if (asked.isWithoutBody) exchange.end()
  else {
    stream.on('trailers', (_trailers, __, raw) => {
      try {
        exchange.addTrailers(pairs(raw as unknown as string[]) as [string, string][])
      } catch {
        stream.close(constants.NGHTTP2_PROTOCOL_ERROR)
      }
    })
    stream.pipe(exchange)
  }
}

/**
 * SECURITY: NW-17, NW-18. Undefined if pseudo-headers and headers of the HTTP/2 request contradict each
 * other.
 */
function headOf({
  headers,
  raw,
  isWithoutBody,
}: Asked):
  | { readonly method: string; readonly path: string; readonly headers: readonly Header[] }
  | undefined {
  const { ':method': method, ':path': path, ':authority': authority, ':scheme': scheme } = headers
  const host = authority ?? headers.host
  if (typeof method !== 'string' || typeof path !== 'string' || typeof host !== 'string') return undefined
  if (scheme !== 'https' || headers[':protocol'] !== undefined || method === 'CONNECT') return undefined
  if (authority !== undefined && headers.host !== undefined && headers.host !== authority) return undefined
  const written = pairs(raw).filter(([name]) => !name.startsWith(':') && name !== 'host' && name !== 'cookie')
  // HTTP/2 may split cookies into several headers; HTTP/1 has one.
  const cookies = pairs(raw)
    .filter(([name]) => name === 'cookie')
    .map(([, value]) => value)
  const hasLength = headers['content-length'] !== undefined
  return {
    method,
    path,
    headers: [
      ['Host', host],
      ...written,
      ...(cookies.length > 0 ? [['Cookie', cookies.join('; ')] as const] : []),
      ...(isWithoutBody || hasLength ? [] : [['Transfer-Encoding', 'chunked'] as const]),
    ],
  }
}

const CONNECTION_ONLY = [
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]

function sendAnswer(stream: ServerHttp2Stream, answer: IncomingMessage): void {
  if (stream.destroyed || stream.closed) return void answer.destroy()
  const headers = Object.create(null) as Record<string, string | string[]>
  for (const [name, value] of pairs(answer.rawHeaders)) {
    const key = name.toLowerCase()
    if (CONNECTION_ONLY.includes(key)) continue
    const before = headers[key]
    headers[key] = before === undefined ? value : [before, value].flat()
  }
  try {
    stream.respond({ ...headers, ':status': answer.statusCode ?? 502 }, { waitForTrailers: true })
  } catch {
    answer.destroy()
    return void stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  }
  stream.on('wantTrailers', () => {
    const trailers = pairs(answer.rawTrailers)
      .map(([name, value]) => [name.toLowerCase(), value] as const)
      .filter(([name]) => !CONNECTION_ONLY.includes(name))
    try {
      stream.sendTrailers(Object.fromEntries(trailers))
    } catch {
      // HTTP/2 cannot express these trailers of the server.
      stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    }
  })
  answer.on('error', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
  answer.pipe(stream)
}

function refuseStream(stream: ServerHttp2Stream): void {
  if (stream.destroyed || stream.closed) return
  const body = 'AgentPod blocked this request: the request is malformed [http.syntax]\n'
  stream.respond({
    ':status': 400,
    'content-type': 'text/plain; charset=utf-8',
    'x-agentpod-refused': 'http.syntax',
  })
  stream.end(body)
}
