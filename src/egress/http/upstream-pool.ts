/** Keep-alive connections to servers. A connection is only reused by the same sandbox for the same site. */
import { Agent } from 'node:http'
import type { Duplex } from 'node:stream'
import { ReadingSocket } from '../reach/reading-socket.ts'

export type Connect = () => Promise<Duplex>

const MOST_SOCKETS = 64
const MOST_AGENTS = 256
/** Shorter than the timeout of common servers, so that a request rarely uses a connection that is closing. */
const FREE_MS = 4000

class SiteAgent extends Agent {
  readonly #connect: Connect

  constructor(connect: Connect) {
    super({ keepAlive: true, maxSockets: MOST_SOCKETS, maxFreeSockets: MOST_SOCKETS, timeout: FREE_MS })
    this.#connect = connect
  }

  /** All its connections lead to one site, so there is no need to tell them apart for each request. */
  override getName(): string {
    return 'site'
  }

  override createConnection(
    _options: unknown,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    this.#connect().then(
      (stream) => {
        // Node's parser copies what it keeps.
        if (stream instanceof ReadingSocket) stream.lendBytes()
        callback?.(null, stream)
      },
      // Node only uses the error; the type of the callback also requires a stream.
      (error) => (callback as ((error: Error) => void) | undefined)?.(error),
    )
    return undefined
  }

  /** Node reads `keepAlive` when a request is done, and closes the connection if it is false. */
  retire(): void {
    Object.assign(this, { keepAlive: false })
  }
}

export class UpstreamPool {
  readonly #agents = new Map<string, SiteAgent>()

  /** INVARIANT: requests that may be allowed different addresses have different keys. */
  get(key: string, connect: Connect): Agent {
    let agent = this.#agents.get(key)
    if (!agent) {
      if (this.#agents.size >= MOST_AGENTS) this.forget()
      agent = new SiteAgent(connect)
      this.#agents.set(key, agent)
    }
    return agent
  }

  /** Requests in progress continue; later requests use new connections. */
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
