/**
 * HTTP/1 in the clear, from wherever it comes: a proxy's requests, plain connections, and what an interceptor has decrypted. Each request is checked, aimed,
 * decided upon and only then sent.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { answerRefusal, endWith, endWithRefusal } from './http-answer.ts'
import { LARGEST_HEAD } from './http-asking.ts'
import { checkHead, malformed } from './http-check.ts'
import { forward } from './http-forward.ts'
import { endToEnd, listOf, pairs, type RequestHead } from './http-head.ts'
import { applyHeaderRules } from './http-header-rule.ts'
import { type Handling, type Hooks, NO_HOOKS } from './http-hooks.ts'
import { aimOf, isRefusal, type Site } from './http-target.ts'
import { forwardUpgrade } from './http-upgrade.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import type { Log } from './log.ts'
import { type Wanted, wantedOf } from './package-request.ts'
import { outcomeOf, type Refusal, refusal, refusalOf, refusalOfError } from './refusal.ts'
import { IDLE_MS } from './splice.ts'
import type { Target, Via } from './target.ts'

export interface Served {
  readonly stream: Duplex
  readonly link: Link
  /** Where the connection leads, or `proxy` where each request says it. */
  readonly site: Site | 'proxy'
  readonly via: Via
  /** Takes a CONNECT, which only a proxy has; the stream is the tunnel's from then on. */
  readonly connect?: ((stream: Duplex, authority: string) => void) | undefined
}

interface Connection extends Served {
  underWay: number
  /** A refusal is on its way, and nothing comes after it. */
  isRefused: boolean
  cancelDeadline: () => void
}

/** What a request has become when it may be sent. */
interface Ready {
  readonly site: Site
  readonly judgement: Judgement
  readonly handling: Handling
  readonly wanted?: Wanted | undefined
}

const HEAD_MS = 15_000
const KEEP_ALIVE_MS = 60_000
const MOST_PIPELINED = 32

export class HttpEngine {
  readonly #server: Server
  readonly #hooks: Hooks
  readonly #log: Log
  readonly #connections = new WeakMap<Duplex, Connection>()

  constructor(o: { readonly log: Log; readonly hooks?: Hooks | undefined }) {
    this.#log = o.log
    this.#hooks = o.hooks ?? NO_HOOKS
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

  /** The stream is the engine's from here on; what was looked at must have been put back. */
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
    connection.cancelDeadline = connection.link.parts.clock.after(ms, () => connection.stream.destroy())
  }

  #request(req: IncomingMessage, res: ServerResponse): void {
    const connection = this.#connections.get(req.socket)
    if (!connection) return void res.destroy()
    // What was sent along behind a request that is refused is not looked at.
    if (connection.isRefused) return void req.resume()
    connection.cancelDeadline()
    connection.underWay++
    res.on('close', () => {
      connection.underWay--
      if (connection.underWay === 0 && !connection.stream.destroyed)
        this.#expectHead(connection, KEEP_ALIVE_MS + HEAD_MS)
    })
    // A client that sends on without reading would have everything it asks for kept here.
    if (connection.underWay > MOST_PIPELINED) return void connection.stream.destroy()
    const { link, via } = connection
    const ready = this.#prepare(connection, req)
    if ('status' in ready) {
      connection.isRefused = true
      return void answerRefusal({ req, res, clock: link.parts.clock }, ready)
    }
    forward({ req, res, link, via, ...ready }).catch((error) => this.#bug(error, connection.stream))
  }

  #upgrade(req: IncomingMessage, stream: Duplex, first: Buffer): void {
    const connection = this.#connections.get(stream)
    if (!connection) return void stream.destroy()
    connection.cancelDeadline()
    stream.on('error', () => stream.destroy())
    const { link, via } = connection
    const ready = this.#prepare(connection, req)
    if ('status' in ready) return void endWithRefusal(stream, ready, link.parts.clock)
    if (first.length > 0) stream.unshift(first)
    forwardUpgrade({ req, stream, link, via, ...ready }).catch((error) => this.#bug(error, stream))
  }

  /** Everything that is decided about a request, in the order that is law. A refusal has been written down. */
  #prepare(connection: Connection, req: IncomingMessage): Ready | Refusal {
    const { link, via } = connection
    const refuse = (why: Refusal, target?: Target, judgement?: Judgement, head?: RequestHead): Refusal => {
      const { reason, message } = why
      link.note({ outcome: outcomeOf(why), target, via, reason, message, judgement, request: head })
      return why
    }
    const target = connection.site === 'proxy' ? undefined : connection.site.target
    const { method = '', url = '' } = req
    const headers = pairs(req.rawHeaders)
    const bad =
      checkHead(req) ??
      (isUpgradeWithBody(req) ? malformed('upgrade', 'changes protocols and has a body') : undefined)
    if (bad) return refuse(bad, target)
    const aimed = aimOf({ method, url, headers }, connection.site)
    if (isRefusal(aimed)) return refuse(aimed, target)
    const { site, path } = aimed
    // What the client names in Connection is taken out before anything of ours is put in.
    const head: RequestHead = { method, path, headers: endToEnd(headers) }
    const judgement = link.judge(site.target, { method, path })
    if (!judgement.allowed) return refuse(refusalOf(judgement), site.target, judgement, head)
    try {
      link.admit(judgement)
    } catch (error) {
      return refuse(refusalOfError(error), site.target, judgement, head)
    }
    const begun = this.#hooks.begin({ head, site, link, via })
    if ('status' in begun) return refuse(begun, site.target, judgement, head)
    const ruled = applyHeaderRules(begun.head, site, link.spec.headers)
    const handling = { ...begun, head: ruled }
    const wanted = link.spec.cache ? wantedOf({ head, handling, site }) : undefined
    return { site, judgement, handling, wanted }
  }

  #connect(req: IncomingMessage, stream: Duplex, first: Buffer): void {
    const connection = this.#connections.get(stream)
    if (!connection) return void stream.destroy()
    connection.cancelDeadline()
    stream.on('error', () => stream.destroy())
    const { link, via, connect, site } = connection
    const target = site === 'proxy' ? undefined : site.target
    const refuse = (why: Refusal): void => {
      const { reason, message } = why
      link.note({ outcome: 'denied', target, via: target ? via : 'connect', reason, message })
      endWithRefusal(stream, why, link.parts.clock)
    }
    // SECURITY: NW-20. A tunnel in a tunnel is a method that is never passed on.
    if (!connect || connection.underWay > 0)
      return void refuse(
        refusal(403, 'request.method', 'CONNECT is never passed on', 'connect to the proxy itself'),
      )
    const bad = checkConnect(req)
    if (bad) return void refuse(bad)
    if (first.length > 0) stream.unshift(first)
    connect(stream, req.url ?? '')
  }

  #malformed(stream: Duplex): void {
    const connection = this.#connections.get(stream)
    if (connection?.isRefused) return void endWith(stream, '', connection.link.parts.clock)
    const isAnswered = connection && connection.underWay > 0 && hasAnswerBegun(stream)
    if (!connection || isAnswered || !stream.writable) return void stream.destroy()
    const { link, via, site } = connection
    const why = malformed('syntax', 'is not well-formed HTTP')
    const target = site === 'proxy' ? undefined : site.target
    link.note({ outcome: 'denied', target, via, reason: why.reason, message: why.message })
    endWithRefusal(stream, why, link.parts.clock)
  }

  #bug(error: unknown, stream: Duplex): void {
    this.#log.error('a request was dropped', { error })
    stream.destroy()
  }
}

function isUpgradeWithBody(req: IncomingMessage): boolean {
  const headers = pairs(req.rawHeaders)
  const isUpgrade =
    listOf(headers, 'connection').includes('upgrade') && req.headers.upgrade?.toLowerCase() === 'websocket'
  if (!isUpgrade) return false
  return (
    req.method !== 'GET' ||
    req.headers['transfer-encoding'] !== undefined ||
    Number(req.headers['content-length'] ?? 0) > 0
  )
}

/** Many clients leave Host out of a CONNECT, so there it may be missing. */
function checkConnect(req: IncomingMessage): Refusal | undefined {
  if (req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined)
    return malformed('connect', 'is a CONNECT with a body')
  const { httpVersion, rawHeaders } = req
  const isBare = req.headers.host === undefined
  return checkHead({ httpVersion, rawHeaders: isBare ? [...rawHeaders, 'Host', '-'] : rawHeaders })
}

function hasAnswerBegun(stream: Duplex): boolean {
  const { _httpMessage } = stream as { _httpMessage?: { headersSent?: boolean } }
  return _httpMessage?.headersSent === true
}
