/** An HTTP server behind one door, on a unix socket or on TCP, with bounds on what a client may take. */
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, Socket } from 'node:net'
import { AgentPodError } from '../core/error.ts'
import { socketPath } from '../util/socket-path.ts'
import { Connections } from './connections.ts'
import type { Door } from './data-plane.ts'
import type { Tracer } from './trace.ts'

export type Place =
  | { readonly socket: string }
  | {
      readonly host: string
      readonly port: number
      readonly tls?: { readonly cert: string; readonly key: string } | undefined
    }

export interface ListenOptions {
  readonly door: Door
  readonly place: Place
  /** Called at the start of each request, and when its connection is done with it. */
  onActivity(): void
  /** Told of each request before its door is. */
  readonly trace?: Tracer | undefined
  readonly limits?: Partial<ConnectionLimits> | undefined
}

/** How long a client may take, and how many there may be at once. */
export interface ConnectionLimits {
  readonly headersMs: number
  /** After an answer that did not wait for its request's body. */
  readonly restMs: number
  readonly connections: number
  /** Of one address, of those that have shown no key and have no request under way. */
  readonly idlePerAddress: number
}

/** SECURITY: CP-16. A client that is slow with its headers, or that opens connections for their own sake, is cut. */
const DEFAULT_LIMITS: ConnectionLimits = {
  headersMs: 10_000,
  restMs: 5000,
  connections: 4096,
  idlePerAddress: 512,
}
const KEEP_ALIVE_MS = 60_000
const LONGEST_HEADERS = 32 * 1024

export async function listen({ door, place, onActivity, trace, limits }: ListenOptions): Promise<Server> {
  const { headersMs, restMs, ...bounds } = { ...DEFAULT_LIMITS, ...limits }
  const onRequest: RequestListener = (request, response) => {
    onActivity()
    const done = connections?.begin(request)
    response.once('close', () => {
      onActivity()
      done?.()
    })
    response.once('finish', () => cutLate(request, restMs))
    trace?.(request, response)
    door.handle(request, response)
  }
  const options = {
    headersTimeout: headersMs,
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: LONGEST_HEADERS,
    // Node looks for the slow every thirty seconds, which would make ten seconds forty.
    connectionsCheckingInterval: Math.ceil(headersMs / 4),
  }
  const tls = 'host' in place ? place.tls : undefined
  const server = tls
    ? createTlsServer({ ...options, ...tls, handshakeTimeout: headersMs }, onRequest)
    : createServer(options, onRequest)
  // Whoever may open the unix socket is the local user.
  const connections =
    'host' in place ? new Connections(server, { ...bounds, keylessIdleMs: headersMs }) : undefined
  server.on('upgrade', (request, socket, head) => {
    onActivity()
    socket.on('error', () => socket.destroy())
    // A peer that is gone without a word is noticed, and does not hold its place for ever.
    if (socket instanceof Socket) socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.once('close', connections?.begin(request) ?? (() => undefined))
    door.upgrade(request, socket, head)
  })
  await open(server, place)
  return server
}

/** SECURITY: CP-16. Node would wait for the rest of a refused body for as long as it drips. */
function cutLate(request: IncomingMessage, restMs: number): void {
  if (request.complete) return
  const { socket } = request
  setTimeout(() => {
    if (!request.complete) socket.destroy()
  }, restMs).unref()
}

async function open(server: Server, place: Place): Promise<void> {
  if ('socket' in place) rmSync(place.socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    // Stays: a listener that stumbles later (no descriptor left for one more connection) must not end the server.
    server.on('error', (error: NodeJS.ErrnoException) => reject(busy(error, place)))
    if ('socket' in place) server.listen(socketPath(place.socket), resolve)
    else server.listen(place.port, place.host, resolve)
  })
  // The socket's mode is its guard; the directory above is 0700 from the start, so there is no gap before this line.
  if ('socket' in place) chmodSync(place.socket, 0o600)
}

function busy(error: NodeJS.ErrnoException, place: Place): unknown {
  if (!('host' in place) || (error.code !== 'EADDRINUSE' && error.code !== 'EACCES')) return error
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'port.taken',
    message: `port ${place.port} on ${place.host} cannot be opened: ${error.code}`,
    hint: 'choose another with --port; 0 takes any free one',
    cause: error,
  })
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}
