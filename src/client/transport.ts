/** HTTP to the server over its unix socket, or over TCP with a key. Uses only Node's own modules. */

import type { Agent, IncomingMessage, RequestOptions } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { AgentPodError, isErrorCode } from '../core/error.ts'
import { socketPath } from '../util/file/socket-path.ts'
import { readBytes } from '../util/stream/read-bytes.ts'

/** Where the server is: a unix socket, protected by its file mode, or a URL and a key. */
export type Place = { readonly socket: string } | { readonly url: string; readonly key: string }

export type TransportOptions = Place & {
  /** Called when nothing listens there; when it resolves, the request is tried once more. */
  readonly revive?: (() => Promise<void>) | undefined
}

export interface Call {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: Buffer | Readable | undefined
  readonly signal?: AbortSignal | undefined
  /** For a POST that does the same when it is sent twice, such as the start of a sandbox. */
  readonly isRepeatable?: boolean | undefined
}

/** Answers other than streams are small. */
const LONGEST_ANSWER_BYTES = 64 * 1024 * 1024

/**
 * An `import` of a Node module evaluates all its exports, and one of `node:http` loads a WebSocket client,
 * which takes longer than the rest of the start-up together.
 */
const { Agent: PlainAgent, request: httpRequest } = process.getBuiltinModule('node:http')

export class Transport {
  readonly #options: TransportOptions
  readonly #agent: Agent
  readonly #isTls: boolean

  constructor(options: TransportOptions) {
    this.#options = options
    this.#isTls = 'url' in options && new URL(options.url).protocol === 'https:'
    this.#agent = this.#isTls ? new (tls().Agent)({ keepAlive: true }) : new PlainAgent({ keepAlive: true })
  }

  /** The address and the credentials of a request. */
  #place(): RequestOptions {
    if ('socket' in this.#options) {
      // Without a name for TLS, Node looks whether the host is an address, which takes milliseconds once.
      const noTls = { servername: '' }
      return { ...noTls, socketPath: socketPath(this.#options.socket), headers: { host: 'agentpod' } }
    }
    const { hostname, port, host } = new URL(this.#options.url)
    return {
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port: port || (this.#isTls ? 443 : 80),
      headers: { host, 'x-api-key': this.#options.key },
    }
  }

  get #request(): typeof httpRequest {
    return this.#isTls ? (tls().request as typeof httpRequest) : httpRequest
  }

  /** The response as a stream, with any status. `unavailable` if the connection breaks. */
  async send(call: Call): Promise<IncomingMessage> {
    try {
      return await this.#once(call)
    } catch (error) {
      // A server that died may have received the request.
      const isRepeatable = isIdempotent(call) && (isErrno(error, 'ECONNRESET') || isErrno(error, 'EPIPE'))
      const isNotReceived = isErrno(error, 'ECONNREFUSED') || isErrno(error, 'ENOENT') || isRepeatable
      const isReplayable = call.body === undefined || Buffer.isBuffer(call.body)
      if (!isNotReceived || !isReplayable || !this.#options.revive) throw broken(error, call.signal)
      await this.#options.revive()
      try {
        return await this.#once(call)
      } catch (again) {
        throw broken(again, call.signal)
      }
    }
  }

  /** Throws the server's error unless the status is 2xx. */
  async open(call: Call): Promise<IncomingMessage> {
    const response = await this.send(call)
    if (isSuccess(response)) return response
    throw errorFrom(response.statusCode ?? 0, await readText(response))
  }

  async json(
    method: string,
    path: string,
    body?: unknown,
    o: { headers?: Record<string, string>; signal?: AbortSignal | undefined; isRepeatable?: boolean } = {},
  ): Promise<unknown> {
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    const response = await this.open({
      method,
      path,
      headers: { ...(payload && { 'content-type': 'application/json' }), ...o.headers },
      body: payload,
      signal: o.signal,
      isRepeatable: o.isRepeatable,
    })
    return readJson(response)
  }

  /** Every entry of a list, over all of its pages. */
  async list(path: string, fields: URLSearchParams): Promise<unknown[]> {
    const found: unknown[] = []
    const asked = new URLSearchParams(fields)
    for (;;) {
      const page = await this.open({ method: 'GET', path: `${path}?${asked}` })
      found.push(...((await readJson(page)) as unknown[]))
      const next = page.headers['agentpod-next']
      if (typeof next !== 'string') return found
      asked.set('after', next)
    }
  }

  /** A raw byte stream after an HTTP upgrade. */
  upgrade(path: string, headers: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Duplex> {
    return new Promise((resolve, reject) => {
      const place = this.#place()
      const outgoing = this.#request({
        ...place,
        path,
        headers: { ...place.headers, ...headers, connection: 'upgrade', upgrade: 'agentpod-tunnel' },
        ...(signal && { signal }),
      })
      outgoing.once('upgrade', (_, socket, head) => {
        if (head.length > 0) socket.unshift(head)
        resolve(socket)
      })
      outgoing.once('response', (response) => {
        readText(response).then((text) => reject(errorFrom(response.statusCode ?? 0, text)), reject)
      })
      outgoing.once('error', (error) => reject(broken(error, signal)))
      outgoing.end()
    })
  }

  close(): void {
    this.#agent.destroy()
  }

  #once(call: Call): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const body = call.body
      const place = this.#place()
      const outgoing = this.#request({
        ...place,
        agent: this.#agent,
        method: call.method,
        path: call.path,
        headers: {
          ...place.headers,
          ...call.headers,
          ...(Buffer.isBuffer(body) && { 'content-length': String(body.length) }),
        },
        ...(call.signal && { signal: call.signal }),
      })
      outgoing.once('response', resolve)
      outgoing.once('error', (error: NodeJS.ErrnoException) => {
        // The server may have closed an idle kept-alive connection; that does not mean it is gone.
        if (
          outgoing.reusedSocket &&
          isErrno(error, 'ECONNRESET') &&
          (body === undefined || Buffer.isBuffer(body)) &&
          isIdempotent(call)
        ) {
          resolve(this.#once(call))
        } else reject(error)
      })
      if (body === undefined || Buffer.isBuffer(body)) {
        outgoing.end(body)
      } else {
        body.once('error', (error) => outgoing.destroy(error))
        body.pipe(outgoing)
      }
    })
  }
}

function tls(): typeof import('node:https') {
  return process.getBuiltinModule('node:https')
}

function isIdempotent(call: Call): boolean {
  return call.method !== 'POST' || call.isRepeatable === true
}

function isSuccess(response: IncomingMessage): boolean {
  const status = response.statusCode ?? 0
  return status >= 200 && status < 300
}

export async function readText(response: IncomingMessage): Promise<string> {
  const bytes = await readBytes(
    response,
    LONGEST_ANSWER_BYTES,
    () =>
      new AgentPodError({
        code: 'resource_exhausted',
        reason: 'answer.too_large',
        message: 'the answer of the server is too long',
      }),
  )
  return bytes.toString('utf8')
}

export async function readJson(response: IncomingMessage): Promise<unknown> {
  const text = await readText(response)
  return text === '' ? undefined : JSON.parse(text)
}

/** Turns an error body of the server, or of the guest (Connect's form), into an AgentPodError. */
export function errorFrom(status: number, text: string): AgentPodError {
  let body: Record<string, unknown> = {}
  try {
    const parsed = JSON.parse(text) as Record<string, unknown>
    body = (parsed['error'] as Record<string, unknown> | undefined) ?? parsed
  } catch {
    // Not JSON: use the status alone.
  }
  return connectError(body, `the server answered ${status}`)
}

export function connectError(body: Record<string, unknown>, fallback: string): AgentPodError {
  const text = (key: string): string | undefined =>
    typeof body[key] === 'string' ? (body[key] as string) : undefined
  const code = body['code']
  return new AgentPodError({
    code: isErrorCode(code) ? code : code === 'unimplemented' ? 'unsupported' : 'internal',
    reason: text('reason') ?? 'guest',
    message: text('message') ?? fallback,
    hint: text('hint'),
    details: body['details'] as Record<string, unknown> | undefined,
  })
}

function broken(error: unknown, signal: AbortSignal | undefined): AgentPodError {
  if (signal?.aborted) {
    return new AgentPodError({
      code: 'canceled',
      reason: 'canceled',
      message: 'the call was canceled',
      cause: error,
    })
  }
  return new AgentPodError({
    code: 'unavailable',
    reason: 'server.unreachable',
    message: 'cannot reach the AgentPod server',
    hint: '`agentpod serve` starts one',
    cause: error,
  })
}

function isErrno(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code
}
