/**
 * SECURITY: CP-16. Limits the TCP connections of a listener, so that a client that only opens connections
 * cannot block others. A connection without a valid key is closed soon after it becomes idle, and first when
 * there are too many.
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

export interface ConnectionBounds {
  readonly connections: number
  /** The most idle connections without a key from one address. */
  readonly idlePerAddress: number
  /** How long a connection without a key may wait for its next request. */
  readonly keylessIdleMs: number
}

interface Connection {
  readonly socket: Socket
  readonly name: string
  readonly address: string
  requests: number
  hasShownKey: boolean
  timer: NodeJS.Timeout | undefined
}

const VOUCH = Symbol('vouch')
type Vouched = IncomingMessage & { [VOUCH]?: () => void }

/** Records that a request had a valid key or token, so that its connection may stay idle for longer. */
export function markAuthenticated(request: IncomingMessage): void {
  ;(request as Vouched)[VOUCH]?.()
}

export class Connections {
  readonly #bounds: ConnectionBounds
  readonly #all = new Map<string, Connection>()
  /** Connections without an open request, the longest idle first. */
  readonly #idle = new Set<Connection>()
  readonly #keylessOf = new Map<string, number>()

  constructor(server: Server, bounds: ConnectionBounds) {
    this.#bounds = bounds
    server.on('connection', (socket) => this.#admit(socket))
  }

  /** Called at the start of each request. Call the returned function when the request is over. */
  begin(request: IncomingMessage): () => void {
    const connection = this.#all.get(nameOf(request.socket))
    if (!connection) return () => undefined
    ;(request as Vouched)[VOUCH] = () => {
      connection.hasShownKey = true
    }
    connection.requests++
    this.#leaveIdle(connection)
    return () => {
      connection.requests--
      if (connection.requests === 0 && !connection.socket.destroyed) this.#fallIdle(connection)
    }
  }

  #admit(socket: Socket): void {
    const address = socket.remoteAddress ?? ''
    const name = nameOf(socket)
    const connection: Connection = {
      socket,
      name,
      address,
      requests: 0,
      hasShownKey: false,
      timer: undefined,
    }
    if (this.#all.size >= this.#bounds.connections && !this.#makeRoom()) {
      socket.destroy()
      return
    }
    this.#all.set(name, connection)
    // Another connection may have reused this name before the event arrives.
    socket.once('close', () => {
      this.#leaveIdle(connection)
      if (this.#all.get(name) === connection) this.#all.delete(name)
    })
    this.#fallIdle(connection)
    if ((this.#keylessOf.get(address) ?? 0) > this.#bounds.idlePerAddress)
      this.#cut((one) => !one.hasShownKey && one.address === address)
  }

  #makeRoom(): boolean {
    return this.#cut((one) => !one.hasShownKey) || this.#cut(() => true)
  }

  /** Closes the longest idle connection that matches. */
  #cut(matches: (one: Connection) => boolean): boolean {
    for (const one of this.#idle) {
      if (!matches(one)) continue
      this.#leaveIdle(one)
      this.#all.delete(one.name)
      one.socket.destroy()
      return true
    }
    return false
  }

  #fallIdle(connection: Connection): void {
    this.#idle.add(connection)
    if (connection.hasShownKey) return
    this.#count(connection.address, 1)
    connection.timer = setTimeout(() => connection.socket.destroy(), this.#bounds.keylessIdleMs).unref()
  }

  #leaveIdle(connection: Connection): void {
    if (!this.#idle.delete(connection)) return
    if (connection.timer === undefined) return
    clearTimeout(connection.timer)
    connection.timer = undefined
    this.#count(connection.address, -1)
  }

  #count(address: string, change: number): void {
    const count = (this.#keylessOf.get(address) ?? 0) + change
    if (count > 0) this.#keylessOf.set(address, count)
    else this.#keylessOf.delete(address)
  }
}

/** The same name for a TLS socket and the TCP socket below it. */
function nameOf(socket: Socket): string {
  return `${socket.remoteAddress}:${socket.remotePort}`
}
