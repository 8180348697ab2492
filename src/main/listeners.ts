/** The TCP listener of a server: opened at start or when somebody asks, and only ever one. */
import type { Server } from 'node:http'
import type { Door } from '../api/data-plane.ts'
import { listen, portOf } from '../api/listen.ts'
import type { Tracer } from '../api/trace.ts'
import { AgentPodError } from '../core/error.ts'

export interface TcpOptions {
  readonly host: string
  readonly port: number
  readonly tls?: { readonly cert: string; readonly key: string } | undefined
}

export interface TcpAddress {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])

export class TcpListener implements AsyncDisposable {
  readonly #door: Door
  readonly #onActivity: () => void
  readonly #trace: Tracer
  #open: { server: Server; address: TcpAddress } | undefined
  #opening: Promise<TcpAddress> | undefined

  constructor(door: Door, onActivity: () => void, trace: Tracer) {
    this.#door = door
    this.#onActivity = onActivity
    this.#trace = trace
  }

  get address(): TcpAddress | undefined {
    return this.#open?.address
  }

  /** Opens it; where it is open already, answers where. */
  async open(options: TcpOptions): Promise<TcpAddress> {
    // Two who ask at once get one listener.
    if (!this.#open) {
      this.#opening ??= this.#listen(options).finally(() => {
        this.#opening = undefined
      })
      return this.#opening
    }
    return this.#open.address
  }

  async #listen(options: TcpOptions): Promise<TcpAddress> {
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
    const address = { host: options.host, port: portOf(server), isTls: options.tls !== undefined }
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
