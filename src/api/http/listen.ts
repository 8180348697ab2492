/** Starts an HTTP server on a unix socket or on TCP, with limits for its clients. */
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, Socket } from 'node:net'
import { AgentPodError } from '../../core/error.ts'
import { socketPath } from '../../util/file/socket-path.ts'
import type { FrontDoor } from '../door/front-door.ts'
import { Connections } from './connections.ts'
import type { Tracer } from './trace.ts'

export type ListenAddress =
  | { readonly socket: string }
  | {
      readonly host: string
      readonly port: number
      readonly tls?: { readonly cert: string; readonly key: string } | undefined
    }

export interface ListenOptions {
  readonly door: FrontDoor
  readonly address: ListenAddress
  /** Called at the start and at the end of each request. */
  onActivity(): void
  /** Called for each request before the door handles it. */
  readonly trace?: Tracer | undefined
  readonly limits?: Partial<ConnectionLimits> | undefined
}

/** How long clients may take, and how many connections they may have. */
export interface ConnectionLimits {
  readonly headersMs: number
  /** How long the rest of a body may take after an answer that did not wait for it. */
  readonly restMs: number
  readonly connections: number
  /** The most idle connections without a key from one address. */
  readonly idlePerAddress: number
}

/** SECURITY: CP-16. A client that sends its headers slowly, or only opens connections, is disconnected. */
const DEFAULT_LIMITS: ConnectionLimits = {
  headersMs: 10_000,
  restMs: 5000,
  connections: 4096,
  idlePerAddress: 512,
}
const KEEP_ALIVE_MS = 60_000
const LONGEST_HEADERS = 32 * 1024

export async function listen({
  door,
  address: place,
  onActivity,
  trace,
  limits,
}: ListenOptions): Promise<Server> {
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
    // Node checks every thirty seconds by default, which would turn ten seconds into forty.
    connectionsCheckingInterval: Math.ceil(headersMs / 4),
  }
  const tls = 'host' in place ? place.tls : undefined
  const server = tls
    ? createTlsServer({ ...options, ...tls, handshakeTimeout: headersMs }, onRequest)
    : createServer(options, onRequest)
  // Only the local user can open the unix socket.
  const connections =
    'host' in place ? new Connections(server, { ...bounds, keylessIdleMs: headersMs }) : undefined
  server.on('upgrade', (request, socket, head) => {
    onActivity()
    socket.on('error', () => socket.destroy())
    // Detects peers that vanished without closing the connection.
    if (socket instanceof Socket) socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.once('close', connections?.begin(request) ?? (() => undefined))
    door.upgrade(request, socket, head)
  })
  await open(server, place)
  return server
}

/** SECURITY: CP-16. Node would wait without limit for the rest of a refused body. */
function cutLate(request: IncomingMessage, restMs: number): void {
  if (request.complete) return
  const { socket } = request
  setTimeout(() => {
    if (!request.complete) socket.destroy()
  }, restMs).unref()
}

async function open(server: Server, place: ListenAddress): Promise<void> {
  if ('socket' in place) rmSync(place.socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    // This listener stays: a later error, such as too many open files, must not end the server.
    server.on('error', (error: NodeJS.ErrnoException) => reject(busy(error, place)))
    if ('socket' in place) server.listen(socketPath(place.socket), resolve)
    else server.listen(place.port, place.host, resolve)
  })
  // The socket's mode protects it. Its directory is 0700 from the start, so there is no gap before this line.
  if ('socket' in place) chmodSync(place.socket, 0o600)
}

function busy(error: NodeJS.ErrnoException, place: ListenAddress): unknown {
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
