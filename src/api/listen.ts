/** An HTTP server behind one door, on a unix socket or on TCP, with bounds on what a client may take. */
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { AgentPodError } from '../core/error.ts'
import { socketPath } from '../util/socket-path.ts'
import type { Door } from './data-plane.ts'

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
}

/** SECURITY: CP-16. A client that is slow with its headers, or that opens connections for their own sake, is cut. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 0,
  keepAliveTimeout: 60_000,
  maxHeaderSize: 32 * 1024,
}
const MOST_CONNECTIONS = 4096

export async function listen({ door, place, onActivity }: ListenOptions): Promise<Server> {
  const onRequest: RequestListener = (request, response) => {
    onActivity()
    response.once('close', onActivity)
    door.handle(request, response)
  }
  const tls = 'host' in place ? place.tls : undefined
  const server = tls ? createTlsServer({ ...LIMITS, ...tls }, onRequest) : createServer(LIMITS, onRequest)
  server.maxConnections = MOST_CONNECTIONS
  server.on('upgrade', (request, socket, head) => {
    onActivity()
    socket.on('error', () => socket.destroy())
    door.upgrade(request, socket, head)
  })
  await open(server, place)
  return server
}

async function open(server: Server, place: Place): Promise<void> {
  if ('socket' in place) rmSync(place.socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(busy(error, place)))
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
    message: `port ${place.port} on ${place.host} cannot be had: ${error.code}`,
    hint: 'choose another with --port; 0 takes any free one',
    cause: error,
  })
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}
