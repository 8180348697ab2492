/** The client of podd: HTTP over streams that the provider opens. */

import { createHash } from 'node:crypto'
import {
  Agent,
  type ClientRequest,
  type ClientRequestArgs,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http'
import type { Duplex } from 'node:stream'
import type { CallOptions, GuestCall } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Guest, GuestInit, GuestRequest, GuestResponse, GuestStats } from '../../core/guest.ts'
import { readBytes } from '../../util/stream/read-bytes.ts'
import { poddArchive, poddFiles } from './files.ts'
import { poddProcesses } from './processes.ts'
import { parseStats } from './stats.ts'
import type { PoddStreams } from './streams.ts'

const IDLE_CONNECTIONS = 16
/** SECURITY: podd's own answers are small; a sandbox cannot make the server hold more than this. */
const LONGEST_ANSWER_BYTES = 1024 * 1024

/** How long a stream may take to open. Each call also has its own deadline. */
const OPEN_MS = 30_000

/** The caller closes the streams. */
export function poddGuest(streams: PoddStreams): Guest {
  return new PoddGuest(streams)
}

/** Connections for Node's HTTP client, which opens unix sockets itself. */
class PoddAgent extends Agent {
  readonly #streams: PoddStreams

  constructor(streams: PoddStreams) {
    super({ keepAlive: true, maxFreeSockets: IDLE_CONNECTIONS })
    this.#streams = streams
  }

  override createConnection(
    options: ClientRequestArgs,
    callback: (error: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    if (this.#streams.socket !== undefined) return super.createConnection(options, callback)
    this.#streams.open('api', AbortSignal.timeout(OPEN_MS)).then(
      (stream) => callback(null, stream),
      // Node ignores the stream if there is an error.
      (error) => (callback as (error: Error) => void)(error),
    )
    return undefined
  }
}

class PoddGuest implements Guest {
  readonly #socket: string | undefined
  readonly #agent: Agent
  readonly #send = (request: GuestRequest, o: GuestCall): Promise<GuestResponse> =>
    this.passThrough(request, o)
  readonly processes = poddProcesses(this.#send)
  readonly files = poddFiles(this.#send)
  readonly archive = poddArchive(this.#send)
  readonly lease: NonNullable<Guest['lease']> = {
    renew: async (lease, o) => void (await this.#call('PUT', '/agentpod/lease', lease, o)),
  }

  constructor(streams: PoddStreams) {
    this.#socket = streams.socket
    this.#agent = new PoddAgent(streams)
  }

  async health(o: CallOptions): Promise<void> {
    await this.#call('GET', '/health', undefined, o)
  }

  async configure({ trust, ...init }: GuestInit, o: CallOptions): Promise<void> {
    const put = (sent?: object) => this.#call('PUT', '/agentpod/init', { ...init, trust: sent }, o)
    if (!trust) return void (await put())
    const { ca, roots, isContinued } = trust
    const name = nameOf(ca, roots)
    // A podd that was saved with other certificates refuses the name, one of an earlier version every name.
    const ways = [...(isContinued ? [{ name }] : []), { ca, roots, name }, { ca, roots }]
    for (const [n, way] of ways.entries()) {
      try {
        return void (await put(way))
      } catch (error) {
        const isRefused = isAgentPodError(error, 'internal') && error.reason === 'guest.refused'
        if (!isRefused || n === ways.length - 1) throw error
      }
    }
  }

  async stats(o: CallOptions): Promise<GuestStats> {
    return parseStats(await this.#call('GET', '/agentpod/usage', undefined, o))
  }

  passThrough(request: GuestRequest, o: GuestCall): Promise<GuestResponse> {
    return new Promise((resolve, reject) => {
      const outgoing = this.#request(request, o.signal)
      outgoing.once('response', (response) => resolve(answer(response)))
      outgoing.once('error', (error) => reject(unreachable(error)))
      if (request.body) {
        request.body.once('error', (error) => outgoing.destroy(error))
        request.body.pipe(outgoing)
      } else {
        outgoing.end()
      }
    })
  }

  dial(port: number, o: CallOptions): Promise<Duplex> {
    const signal = callSignal(o)
    return new Promise((resolve, reject) => {
      const headers = { connection: 'upgrade', upgrade: 'agentpod-tunnel' }
      const outgoing = this.#request(
        { method: 'GET', path: `/agentpod/tunnel?port=${port}`, headers },
        signal,
      )
      outgoing.once('upgrade', (_, socket, head) => {
        if (head.length > 0) socket.unshift(head)
        resolve(socket)
      })
      outgoing.once('response', (response) => {
        response.resume()
        reject(
          response.statusCode === 502
            ? portClosed(port)
            : unreachable(new Error(`status ${response.statusCode}`)),
        )
      })
      outgoing.once('error', (error) => reject(unreachable(error)))
      outgoing.end()
    })
  }

  close(): void {
    this.#agent.destroy()
  }

  #request(request: Omit<GuestRequest, 'body'>, signal: AbortSignal): ClientRequest {
    return httpRequest({
      socketPath: this.#socket,
      agent: this.#agent,
      method: request.method,
      path: request.path,
      // HTTP/1.1 needs a Host header; podd ignores its value.
      headers: { ...request.headers, host: 'podd' },
      signal,
      setHost: false,
    })
  }

  async #call(method: string, path: string, body: unknown, o: CallOptions): Promise<unknown> {
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const headers: Record<string, string> = {}
    if (payload) {
      headers['content-type'] = 'application/json'
      headers['content-length'] = String(payload.length)
    }
    const signal = callSignal(o)
    return new Promise((resolve, reject) => {
      const outgoing = this.#request({ method, path, headers }, signal)
      outgoing.once('error', (error) => reject(unreachable(error)))
      outgoing.once('response', (response) => {
        textOf(response)
          .then((text) => {
            const status = response.statusCode ?? 0
            if (status >= 200 && status < 300) resolve(text === '' ? undefined : JSON.parse(text))
            else reject(refused(path, status, text))
          })
          .catch((error) => reject(unreachable(error)))
      })
      outgoing.end(payload)
    })
  }
}

/** The roots are a quarter of a megabyte, and usually those of the machine. */
let digested = { roots: '', digest: '' }

function nameOf(ca: string, roots: string): string {
  const digest = (text: string): string => createHash('sha256').update(text).digest('base64url')
  if (digested.roots !== roots) digested = { roots, digest: digest(roots) }
  return digest(`${digested.digest} ${ca}`)
}

function callSignal(o: CallOptions): AbortSignal {
  const timeout = AbortSignal.timeout(o.timeoutMs)
  return o.signal ? AbortSignal.any([o.signal, timeout]) : timeout
}

function answer(response: IncomingMessage): GuestResponse {
  return { status: response.statusCode ?? 502, headers: response.headers, body: response }
}

async function textOf(response: IncomingMessage): Promise<string> {
  const tooLong = (): Error => new Error('the answer is too long')
  return (await readBytes(response, LONGEST_ANSWER_BYTES, tooLong)).toString('utf8')
}

function unreachable(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'guest.unreachable',
    message: 'the sandbox does not answer',
    hint: '`agentpod ls` shows whether it is still running',
    cause,
  })
}

function refused(path: string, status: number, text: string): AgentPodError {
  return new AgentPodError({
    code: 'internal',
    reason: 'guest.refused',
    message: `podd refused ${path} (${status}): ${text.slice(0, 300)}`,
  })
}

function portClosed(port: number): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'port.closed',
    message: `nothing listens on port ${port} in the sandbox`,
  })
}
