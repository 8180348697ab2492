/** The HTTP server: data plane first, then the control plane. */

import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'
import { socketPath } from '../util/socket-path.ts'
import type { DataPlane } from './data-plane.ts'

export interface ListenOptions {
  readonly app: Hono
  readonly dataPlane: DataPlane
  readonly socket: string
  /** Called at the start of each request, and when its connection is done with it. */
  onActivity(): void
}

const HEADERS_TIMEOUT_MS = 10_000
const MOST_CONNECTIONS = 4096

export async function listen(options: ListenOptions): Promise<Server> {
  const control = getRequestListener(options.app.fetch)
  const server = createServer(
    { headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: 0, keepAliveTimeout: 60_000 },
    (request, response) => {
      options.onActivity()
      response.once('close', options.onActivity)
      if (!options.dataPlane.handle(request, response)) void control(request, response)
    },
  )
  server.maxConnections = MOST_CONNECTIONS
  server.on('upgrade', (request, socket, head) => {
    options.onActivity()
    socket.on('error', () => socket.destroy())
    if (!options.dataPlane.upgrade(request, socket, head))
      socket.end('HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n')
  })
  rmSync(options.socket, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(socketPath(options.socket), resolve)
  })
  // The socket's mode is its guard; the directory above is 0700 from the start, so there is no gap before this line.
  chmodSync(options.socket, 0o600)
  return server
}
