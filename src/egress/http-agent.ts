/** Connections to servers that are kept between requests, each kind for requests of one sandbox to one site alone. */
import { Agent } from 'node:http'
import type { Duplex } from 'node:stream'

export type Connect = () => Promise<Duplex>

const MOST_SOCKETS = 64
const MOST_FREE = 8
const MOST_AGENTS = 256
/** Shorter than servers wait, so that a request seldom meets a connection that is being closed. */
const FREE_MS = 4000

class SiteAgent extends Agent {
  readonly #connect: Connect

  constructor(connect: Connect) {
    super({ keepAlive: true, maxSockets: MOST_SOCKETS, maxFreeSockets: MOST_FREE, timeout: FREE_MS })
    this.#connect = connect
  }

  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    this.#connect().then(
      (stream) => callback?.(null, stream),
      // Node takes the error alone; the type of the callback wants a stream beside it.
      (error) => (callback as ((error: Error) => void) | undefined)?.(error),
    )
    return undefined
  }

  /** Node reads the field when a request is done, and closes the connection where it says no. */
  retire(): void {
    Object.assign(this, { keepAlive: false })
  }
}

export class Agents {
  readonly #agents = new Map<string, SiteAgent>()

  /** INVARIANT: two requests that might be allowed different addresses have different keys. */
  get(key: string, connect: Connect): Agent {
    let agent = this.#agents.get(key)
    if (!agent) {
      if (this.#agents.size >= MOST_AGENTS) this.forget()
      agent = new SiteAgent(connect)
      this.#agents.set(key, agent)
    }
    return agent
  }

  /** Requests under way go on; no later one uses a connection that was made before. */
  forget(): void {
    for (const agent of this.#agents.values()) {
      agent.retire()
      for (const sockets of Object.values(agent.freeSockets))
        for (const socket of sockets ?? []) socket.destroy()
    }
    this.#agents.clear()
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy()
    this.#agents.clear()
  }
}
