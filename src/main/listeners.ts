/** The TCP listener of a server: opened at start or when somebody asks, and only ever one. */
import type { Server } from 'node:http'
import type { Door } from '../api/data-plane.ts'
import { listen, portOf } from '../api/listen.ts'
import type { Tracer } from '../api/trace.ts'
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
  /** Where it was in an earlier life, when another program has that port by now. */
  readonly movedFrom?: number | undefined
}

/** Where programs were told to find the listener: the next life opens it there again. */
export interface RememberedPort {
  get(): number | undefined
  set(port: number): void
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])

export class TcpListener implements AsyncDisposable {
  readonly #door: Door
  readonly #onActivity: () => void
  readonly #trace: Tracer
  readonly #remembered: RememberedPort
  #isInUse = false
  #open: { server: Server; address: TcpAddress } | undefined
  #opening: Promise<TcpAddress> | undefined

  constructor(door: Door, onActivity: () => void, trace: Tracer, remembered: RememberedPort) {
    this.#door = door
    this.#remembered = remembered
    this.#onActivity = () => {
      this.#isInUse = true
      onActivity()
    }
    this.#trace = trace
  }

  get address(): TcpAddress | undefined {
    return this.#open?.address
  }

  /** Whether somebody in this life asked for it or came through it. One that was only opened again waits for both. */
  get isInUse(): boolean {
    return this.#isInUse
  }

  /** Opens it where it was in an earlier life, so that programs that hold its address go on; false where that cannot be. */
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

  /** Opens it; where it is open already, answers where. Port 0 is the one of an earlier life, or any where that is taken. */
  async open(options: TcpOptions): Promise<TcpAddress> {
    this.#isInUse = true
    // Two who ask at once get one listener.
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
      place: options,
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

/** Stops listening, lets answers under way go out, then cuts what is left. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS)
  await closed
  clearTimeout(timer)
}
