/** The TCP listener of a server. It opens at start or on request, and there is never more than one. */
import type { Server } from 'node:http'
import type { FrontDoor } from '../api/door/front-door.ts'
import { listen, portOf } from '../api/http/listen.ts'
import type { Tracer } from '../api/http/trace.ts'
import { AgentPodError, isAgentPodError } from '../core/error.ts'

export interface TcpOptions {
  readonly host: string
  readonly port: number
  readonly tls?: { readonly cert: string; readonly key: string } | undefined
}

export interface TcpAddress {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  /** The port of the earlier server, if another program uses it by now. */
  readonly movedFrom?: number | undefined
}

/** The port that clients know. The next server listens there again. */
export interface RememberedPort {
  get(): number | undefined
  set(port: number): void
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])

export class TcpListener implements AsyncDisposable {
  readonly #door: FrontDoor
  readonly #onActivity: () => void
  readonly #trace: Tracer
  readonly #remembered: RememberedPort
  #isInUse = false
  #open: { server: Server; address: TcpAddress } | undefined
  #opening: Promise<TcpAddress> | undefined

  constructor(o: {
    readonly door: FrontDoor
    readonly trace: Tracer
    readonly remembered: RememberedPort
    onActivity(): void
  }) {
    this.#door = o.door
    this.#remembered = o.remembered
    this.#onActivity = () => {
      this.#isInUse = true
      o.onActivity()
    }
    this.#trace = o.trace
  }

  get address(): TcpAddress | undefined {
    return this.#open?.address
  }

  /**
   * Whether a client asked this server for it, or connected through it. Reopening it alone does not count.
   */
  get isInUse(): boolean {
    return this.#isInUse
  }

  /**
   * Listens on the port of the earlier server, so that known addresses keep working. False if the port is
   * taken.
   */
  async reopen(host: string): Promise<boolean> {
    const port = this.#remembered.get()
    if (port === undefined || this.#open) return true
    try {
      await this.#listen({ host, port })
      return true
    } catch (error) {
      if (isAgentPodError(error) && error.reason === 'port.taken') return false
      throw error
    }
  }

  /**
   * Opens it, or returns the address if it is open. Port 0 means the earlier port, or any port if that is
   * taken.
   */
  async open(options: TcpOptions): Promise<TcpAddress> {
    this.#isInUse = true
    // Two simultaneous calls share one listener.
    if (!this.#open) {
      this.#opening ??= this.#listenAgain(options).finally(() => {
        this.#opening = undefined
      })
      return this.#opening
    }
    return this.#open.address
  }

  async #listenAgain(options: TcpOptions): Promise<TcpAddress> {
    if (options.port !== 0 || options.tls) return this.#listen(options)
    const before = this.#remembered.get()
    const isBack = await this.reopen(options.host)
    if (this.#open) return this.#open.address
    const address = await this.#listen(options, isBack ? undefined : before)
    this.#remembered.set(address.port)
    return address
  }

  async #listen(options: TcpOptions, movedFrom?: number): Promise<TcpAddress> {
    // SECURITY: keys must not cross a network in the clear.
    if (!options.tls && !LOOPBACK.has(options.host)) {
      throw new AgentPodError({
        code: 'invalid_argument',
        reason: 'listen.clear',
        message: `${options.host} can be reached from outside, so it needs TLS`,
        hint: 'give --tls-cert and --tls-key, or listen on 127.0.0.1',
      })
    }
    const server = await listen({
      door: this.#door,
      address: options,
      onActivity: this.#onActivity,
      trace: this.#trace,
    })
    const address = {
      host: options.host,
      port: portOf(server),
      isTls: options.tls !== undefined,
      ...(movedFrom !== undefined && { movedFrom }),
    }
    this.#open = { server, address }
    return address
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#open) await closeServer(this.#open.server)
  }
}

const GRACE_MS = 200

/** Stops listening, waits a moment for answers under way, then cuts the remaining connections. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS)
  await closed
  clearTimeout(timer)
}
