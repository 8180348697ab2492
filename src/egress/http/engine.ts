/**
 * HTTP/1 in plain text: requests to the proxy, plain connections, and connections that the interceptor
 * decrypted. Each request is checked, its target is read, the policy decides, and only then is it sent.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Log } from '../../telemetry/log.ts'
import type { Judgement } from '../decide/judge.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import type { Destination, Via } from '../destination.ts'
import { type CacheableRequest, cacheableRequestOf } from '../packages/cacheable.ts'
import { IDLE_MS } from '../reach/splice.ts'
import { newRefusal, outcomeOf, type Refusal, refusalOf, refusalOfError } from '../refusal.ts'
import { LARGEST_HEAD } from './allowed-request.ts'
import { checkHead, malformedRequest } from './check-head.ts'
import { forward } from './forward.ts'
import { endToEnd, listOf, pairs, type RequestHead } from './head.ts'
import { applyHeaderRules } from './header-rules.ts'
import { answerRefusal, endWith, endWithRefusal } from './refuse.ts'
import { isRefusal, readRequestTarget, type Site } from './request-target.ts'
import type { RequestTransform, TransformRequest } from './request-transform.ts'
import { forwardUpgrade } from './upgrade.ts'

export interface Served {
  readonly stream: Duplex
  readonly sandbox: SandboxEgress
  /** The site that the connection is for, or `proxy` if each request names its own. */
  readonly site: Site | 'proxy'
  readonly via: Via
  /** Handles a CONNECT, which only a proxy accepts; the stream then belongs to the tunnel. */
  readonly connect?: ((stream: Duplex, authority: string) => void) | undefined
}

interface Connection extends Served {
  underWay: number
  /** A refusal was sent; later requests on the connection are ignored. */
  isRefused: boolean
  cancelDeadline: () => void
}

/** A request that may be sent. */
interface Ready {
  readonly site: Site
  readonly judgement: Judgement
  readonly transform: RequestTransform
  readonly cacheable?: CacheableRequest | undefined
}

const HEAD_MS = 15_000
const KEEP_ALIVE_MS = 60_000
const MOST_PIPELINED = 32

export class HttpEngine {
  readonly #server: Server
  readonly #log: Log
  readonly #transformRequest: TransformRequest
  readonly #connections = new WeakMap<Duplex, Connection>()

  constructor(log: Log, transformRequest: TransformRequest) {
    this.#log = log
    this.#transformRequest = transformRequest
    const isWebsocket = (req: IncomingMessage): boolean => req.headers.upgrade?.toLowerCase() === 'websocket'
    this.#server = createServer({
      insecureHTTPParser: false,
      requireHostHeader: false,
      maxHeaderSize: LARGEST_HEAD,
      keepAliveTimeout: KEEP_ALIVE_MS,
      joinDuplicateHeaders: false,
      shouldUpgradeCallback: isWebsocket,
    })
    this.#server.timeout = IDLE_MS
    this.#server.on('request', (req, res) => this.#request(req, res))
    this.#server.on('checkContinue', (req, res) => this.#request(req, res))
    this.#server.on('checkExpectation', (req, res) => this.#request(req, res))
    this.#server.on('upgrade', (req, stream, first) => this.#upgrade(req, stream, first))
    this.#server.on('connect', (req, stream, first) => this.#connect(req, stream, first))
    this.#server.on('clientError', (_, stream) => this.#malformed(stream))
  }

  /** The engine owns the stream from here on. Bytes that were peeked at must have been put back. */
  serve(served: Served): void {
    const connection: Connection = {
      ...served,
      underWay: 0,
      isRefused: false,
      cancelDeadline: () => undefined,
    }
    this.#connections.set(served.stream, connection)
    this.#expectHead(connection, HEAD_MS)
    served.stream.once('close', () => connection.cancelDeadline())
    this.#server.emit('connection', served.stream)
  }

  #expectHead(connection: Connection, ms: number): void {
    connection.cancelDeadline()
    connection.cancelDeadline = connection.sandbox.parts.clock.after(ms, () => connection.stream.destroy())
  }

  #request(req: IncomingMessage, res: ServerResponse): void {
    const connection = this.#connections.get(req.socket)
    if (!connection) return void res.destroy()
    // Requests after a refused one are ignored.
    if (connection.isRefused) return void req.resume()
    connection.cancelDeadline()
    connection.underWay++
    res.on('close', () => {
      connection.underWay--
      if (connection.underWay === 0 && !connection.stream.destroyed)
        this.#expectHead(connection, KEEP_ALIVE_MS + HEAD_MS)
    })
    // Bounds the memory for a client that sends requests without reading responses.
    if (connection.underWay > MOST_PIPELINED) return void connection.stream.destroy()
    const { sandbox, via } = connection
    const ready = this.#prepare(connection, req)
    if ('status' in ready) {
      connection.isRefused = true
      return void answerRefusal({ req, res, clock: sandbox.parts.clock }, ready)
    }
    forward({ req, res, sandbox, via, ...ready }).catch((error) => this.#bug(error, connection.stream))
  }

  #upgrade(req: IncomingMessage, stream: Duplex, first: Buffer): void {
    const connection = this.#connections.get(stream)
    if (!connection) return void stream.destroy()
    connection.cancelDeadline()
    stream.on('error', () => stream.destroy())
    const { sandbox, via } = connection
    const ready = this.#prepare(connection, req)
    if ('status' in ready) return void endWithRefusal(stream, ready, sandbox.parts.clock)
    if (first.length > 0) stream.unshift(first)
    forwardUpgrade({ req, stream, sandbox, via, ...ready }).catch((error) => this.#bug(error, stream))
  }

  /**
   * INVARIANT: the checks of a request are made in this order: head, target, policy, budget, secrets, header
   * rules. A refusal that this returns has been recorded.
   */
  #prepare(connection: Connection, req: IncomingMessage): Ready | Refusal {
    const { sandbox, via } = connection
    const refuse = (
      why: Refusal,
      destination?: Destination,
      judgement?: Judgement,
      head?: RequestHead,
    ): Refusal => {
      const { reason, message } = why
      sandbox.note({ outcome: outcomeOf(why), destination, via, reason, message, judgement, request: head })
      return why
    }
    const destination = connection.site === 'proxy' ? undefined : connection.site.destination
    const { method = '', url = '' } = req
    const headers = pairs(req.rawHeaders)
    const bad =
      checkHead(req) ??
      (isUpgradeWithBody(req)
        ? malformedRequest('upgrade', 'is a WebSocket upgrade that has a body or is not a GET')
        : undefined)
    if (bad) return refuse(bad, destination)
    const requestTarget = readRequestTarget({ method, url, headers }, connection.site)
    if (isRefusal(requestTarget)) return refuse(requestTarget, destination)
    const { site, path } = requestTarget
    // Headers that the client names in Connection are removed before AgentPod adds its own.
    const head: RequestHead = { method, path, headers: endToEnd(headers) }
    const judgement = sandbox.judge(site.destination, { method, path })
    if (!judgement.allowed) return refuse(refusalOf(judgement), site.destination, judgement, head)
    try {
      sandbox.admit(judgement)
    } catch (error) {
      return refuse(refusalOfError(error), site.destination, judgement, head)
    }
    // SECURITY: GP-04. Secrets, header rules and cached packages are for hosts outside, whatever a member is
    // named.
    if (judgement.isMember) return { site, judgement, transform: { head } }
    const transformed = this.#transformRequest({ head, site, sandbox, via })
    if ('status' in transformed) return refuse(transformed, site.destination, judgement, head)
    const ruled = applyHeaderRules(transformed.head, site, sandbox.spec.headers)
    const transform = { ...transformed, head: ruled }
    const cacheable = sandbox.spec.cache ? cacheableRequestOf({ head, transform, site }) : undefined
    return { site, judgement, transform, cacheable }
  }

  #connect(req: IncomingMessage, stream: Duplex, first: Buffer): void {
    const connection = this.#connections.get(stream)
    if (!connection) return void stream.destroy()
    connection.cancelDeadline()
    stream.on('error', () => stream.destroy())
    const { sandbox, via, connect, site } = connection
    const destination = site === 'proxy' ? undefined : site.destination
    const refuse = (why: Refusal): void => {
      const { reason, message } = why
      sandbox.note({ outcome: 'denied', destination, via: destination ? via : 'connect', reason, message })
      endWithRefusal(stream, why, sandbox.parts.clock)
    }
    // SECURITY: NW-20. CONNECT inside a tunnel is refused.
    if (!connect || connection.underWay > 0)
      return void refuse(
        newRefusal(403, 'request.method', 'CONNECT is not forwarded', 'send CONNECT to the proxy itself'),
      )
    const bad = checkConnect(req)
    if (bad) return void refuse(bad)
    if (first.length > 0) stream.unshift(first)
    connect(stream, req.url ?? '')
  }

  #malformed(stream: Duplex): void {
    const connection = this.#connections.get(stream)
    if (connection?.isRefused) return void endWith(stream, '', connection.sandbox.parts.clock)
    const isAnswered = connection && connection.underWay > 0 && hasAnswerBegun(stream)
    if (!connection || isAnswered || !stream.writable) return void stream.destroy()
    const { sandbox, via, site } = connection
    const why = malformedRequest('syntax', 'is not valid HTTP')
    const destination = site === 'proxy' ? undefined : site.destination
    sandbox.note({ outcome: 'denied', destination, via, reason: why.reason, message: why.message })
    endWithRefusal(stream, why, sandbox.parts.clock)
  }

  #bug(error: unknown, stream: Duplex): void {
    this.#log.error('dropped a request after an internal error', { error })
    stream.destroy()
  }
}

function isUpgradeWithBody(req: IncomingMessage): boolean {
  if (req.headers.upgrade?.toLowerCase() !== 'websocket') return false
  if (!listOf(pairs(req.rawHeaders), 'connection').includes('upgrade')) return false
  return (
    req.method !== 'GET' ||
    req.headers['transfer-encoding'] !== undefined ||
    Number(req.headers['content-length'] ?? 0) > 0
  )
}

/** Many clients send CONNECT without a Host header, so it is optional here. */
function checkConnect(req: IncomingMessage): Refusal | undefined {
  if (req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined)
    return malformedRequest('connect', 'is a CONNECT with a body')
  const { httpVersion, rawHeaders } = req
  const isBare = req.headers.host === undefined
  return checkHead({ httpVersion, rawHeaders: isBare ? [...rawHeaders, 'Host', '-'] : rawHeaders })
}

function hasAnswerBegun(stream: Duplex): boolean {
  const { _httpMessage } = stream as { _httpMessage?: { headersSent?: boolean } }
  return _httpMessage?.headersSent === true
}
