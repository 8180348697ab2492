/**
 * Forwards one allowed request to the checked address and streams the response back. Redirects are returned
 * to the client, which has to send a new request (NW-23).
 */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Readable, Transform, Writable } from 'node:stream'
import { formatAddress } from '../../policy/address.ts'
import type { LinkSpec } from '../control/link-spec.ts'
import { hostText } from '../destination.ts'
import {
  type CacheableRequest,
  cacheableResponseOf,
  PLAIN_HEADERS,
  RETRIED_STATUSES,
} from '../packages/cacheable.ts'
import { mayReplay, replay } from '../packages/replay.ts'
import type { PackageWriter } from '../packages/writer.ts'
import { IDLE_MS } from '../reach/splice.ts'
import { Traffic } from '../record/traffic.ts'
import { newRefusal, type Refusal, refusalOfError } from '../refusal.ts'
import {
  type Exchange,
  isPlainlyCoded,
  LARGEST_HEAD,
  mayContinue,
  noteAllowed,
  noteRefused,
  unsupportedCoding,
} from './allowed-request.ts'
import { checkTrailers } from './check-head.ts'
import { addressOf, connectSite } from './connect-site.ts'
import { endToEnd, flat, type Header, pairs, type ResponseHead, valuesOf, without } from './head.ts'
import { type LongBody, longBodyOf, transferLongBody } from './long-body.ts'
import { answerRefusal } from './refuse.ts'
import { hostHeader } from './request-target.ts'

const STALE = newRefusal(403, 'policy.changed', 'the network rules changed during this request', 'try again')

/** The request body, as its head announces it. */
type Body = 'none' | 'length' | 'chunked'

export async function forward(exchange: Exchange): Promise<void> {
  const { req, res, sandbox } = exchange
  const { spec } = sandbox
  const body = bodyOf(req)
  // SECURITY: NW-21. Node reports a chunked request before the first chunk, which may be malformed.
  if (body === 'chunked' && !req.headers.expect && !(await hasBegun(req))) return
  const cacheable = body === 'none' ? exchange.cacheable : undefined
  const cached = cacheable && (await sandbox.parts.packages?.find(cacheable.url))
  const isGone = res.destroyed || sandbox.signal.aborted
  // SECURITY: I7. The decision was made under the old rules.
  const isStale = sandbox.spec !== spec
  if (cached && !isGone && !isStale && mayReplay(exchange, cached)) return replay(exchange, cached)
  cached?.close()
  if (isGone) return void res.destroy()
  if (isStale) return refuseStale(exchange)
  new Forwarding(exchange, { body, cacheable }).start()
}

function refuseStale(exchange: Exchange): void {
  const { req, res, sandbox } = exchange
  noteRefused(exchange, STALE)
  answerRefusal({ req, res, clock: sandbox.parts.clock }, STALE)
}

function bodyOf(req: IncomingMessage): Body {
  if (req.headers['transfer-encoding'] !== undefined) return 'chunked'
  return Number(req.headers['content-length'] ?? 0) > 0 ? 'length' : 'none'
}

function hasBegun(req: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    const finish = (value: boolean) => (): void => {
      req.off('readable', onReadable).off('close', onGone).off('error', onGone)
      resolve(value)
    }
    const [onReadable, onGone] = [finish(true), finish(false)]
    req.on('readable', onReadable).on('close', onGone).on('error', onGone)
  })
}

class Forwarding {
  readonly #exchange: Exchange
  readonly #body: Body
  readonly #spec: LinkSpec
  readonly #spend: ((bytes: number) => boolean) | undefined
  readonly #traffic = new Traffic(() => [this.#in, this.#out])
  /** Set while the request is sent with the headers of AgentPod, so that the response may be cached. */
  #cacheable: CacheableRequest | undefined
  #writer: PackageWriter | undefined
  #through: Transform | undefined
  #upstream: ClientRequest | undefined
  #release: () => void = () => undefined
  #isNoted = false
  #isOver = false
  /** The whole body was written, and its connection is of no use any more. */
  #isTransferred = false
  #in = 0
  #out = 0

  constructor(
    exchange: Exchange,
    { body, cacheable }: { readonly body: Body; readonly cacheable: CacheableRequest | undefined },
  ) {
    this.#exchange = exchange
    this.#body = body
    this.#spec = exchange.sandbox.spec
    this.#cacheable = exchange.sandbox.parts.packages && cacheable
    this.#spend = exchange.sandbox.budgets.spender(exchange.judgement.rule)
  }

  start(): void {
    const { req, res, sandbox } = this.#exchange
    this.#release = sandbox.add({
      mayContinue: () => this.#mayGoOn(),
      cut: () => this.#end(),
      recordTraffic: () => this.#traffic.record(),
    })
    res.on('error', () => this.#end())
    res.on('close', () => this.#close())
    req.on('error', () => this.#end())
    this.#send(this.#body === 'none' && REPEATABLE.includes(this.#exchange.transform.head.method))
  }

  #send(mayRepeat: boolean): void {
    const { sandbox, site, judgement, transform } = this.#exchange
    const { method, path } = transform.head
    const key = `${site.scheme} ${hostText(site.destination)} ${site.destination.port} ${judgement.allowPrivate}`
    const upstream = request({
      agent: sandbox.upstreams.get(key, () => connectSite(sandbox, site, judgement)),
      method,
      path,
      headers: flat(this.#headers()),
      setHost: false,
      timeout: IDLE_MS,
      maxHeaderSize: LARGEST_HEAD,
    })
    this.#upstream = upstream
    upstream.once('socket', () => this.#noteAllowed())
    upstream.on('error', (error) => {
      if (this.#upstream !== upstream || this.#isTransferred) return
      // A server may close a keep-alive connection just as it is reused.
      if (mayRepeat && upstream.reusedSocket && !this.#isOver && !this.#exchange.res.headersSent)
        this.#repeat(false)
      else this.#fail(error)
    })
    upstream.on('timeout', () => upstream.destroy(new Error('the server did not answer in time')))
    upstream.on('continue', () => this.#exchange.res.writeContinue())
    // SECURITY: informational responses are not forwarded: some take Node seconds to process, others crash
    // it.
    upstream.on('response', (incoming) => this.#answer(incoming))
    // An upgrade that was not requested cannot be forwarded.
    upstream.on('upgrade', (_, socket) => {
      socket.destroy()
      this.#fail(new Error('the server switched protocols without a request'))
    })
    this.#sendBody(upstream)
  }

  #headers(): Header[] {
    const { site, transform } = this.#exchange
    const framed: Header[] = [['Host', hostHeader(site)]]
    if (this.#cacheable) return [...framed, ...PLAIN_HEADERS]
    let rest = without(transform.head.headers, 'host')
    if (this.#body === 'none') {
      // Otherwise Node would add Transfer-Encoding: chunked to a POST without a body.
      if (
        transform.head.method !== 'GET' &&
        transform.head.method !== 'HEAD' &&
        valuesOf(rest, 'content-length').length === 0
      )
        rest = [...rest, ['Content-Length', '0']]
    } else if (this.#body === 'chunked' || (transform.bodyOut && !transform.isSameLength))
      rest = [...without(rest, 'content-length'), ['Transfer-Encoding', 'chunked']]
    return [...framed, ...rest]
  }

  #sendBody(upstream: ClientRequest): void {
    const { req, transform } = this.#exchange
    if (this.#body === 'none') return void upstream.end()
    if (req.headers.expect) upstream.flushHeaders()
    const source = transform.bodyOut ? req.pipe(transform.bodyOut) : req
    transform.bodyOut?.on('error', (error) => {
      const why = transform.refusalOf?.(error)
      if (why) this.#refuse(why)
      else this.#end()
    })
    pump(source, upstream, (bytes) => this.#count(0, bytes))
    source.once('end', () => {
      const bad = checkTrailers(req.rawTrailers) ?? transform.checkTrailers?.(req.rawTrailers)
      // The last chunk was not sent, so the server does not accept the request.
      if (bad) return this.#refuse(bad)
      if (req.rawTrailers.length > 0) upstream.addTrailers(trailers(req.rawTrailers))
      upstream.end()
    })
  }

  #answer(incoming: IncomingMessage): void {
    const { res, transform } = this.#exchange
    let head: ResponseHead = {
      status: incoming.statusCode ?? 502,
      message: incoming.statusMessage ?? '',
      headers: endToEnd(pairs(incoming.rawHeaders)),
    }
    head = transform.response?.(head) ?? head
    const through = transform.bodyIn?.(head)
    this.#through = through
    const isLonger = through && !transform.isSameLength
    const headers = isLonger ? without(head.headers, 'content-length') : head.headers
    if (res.destroyed || this.#isOver) return void incoming.destroy()
    if (this.#cacheable && RETRIED_STATUSES.includes(head.status)) return void this.#askAgain(incoming)
    if (!isPlainlyCoded(incoming)) return void this.#fail(unsupportedCoding())
    try {
      res.sendDate = false
      res.writeHead(head.status, head.message, flat(headers))
    } catch {
      return void this.#fail(new Error('the response is malformed'))
    }
    // The head goes out with the first bytes of the body, if those have arrived too.
    setImmediate(() => {
      if (!this.#isOver && !res.destroyed && !res.writableEnded) res.flushHeaders()
    })
    this.#cache(incoming, head)
    incoming.on('error', () => {
      if (!this.#isTransferred) this.#end()
    })
    through?.on('error', () => this.#end())
    const long = !through && !this.#writer && longBodyOf(incoming, res, transform.head.method)
    if (long) return void this.#transfer(long)
    const source = through ? incoming.pipe(through) : incoming
    pump(source, res, (bytes) => this.#count(bytes, 0), this.#writer)
    source.once('end', () => {
      if (!incoming.complete) return this.#end()
      if (incoming.rawTrailers.length === 0) this.#writer?.finish()
      // SECURITY: SE-04. Values are masked in trailers too.
      addTrailers(res, through ? (transform.trailersIn?.(incoming.rawTrailers) ?? []) : incoming.rawTrailers)
      res.end()
    })
  }

  #transfer(long: LongBody): void {
    transferLongBody(long, {
      onBytes: (bytes) => {
        if (!this.#isOver) this.#count(bytes, 0)
        return !this.#isOver
      },
      onComplete: () => {
        this.#isTransferred = true
        this.#exchange.res.end()
        this.#upstream?.destroy()
      },
      onCut: () => this.#end(),
    })
  }

  /** Sends the request again with the headers of the client; the response is not cached. */
  #askAgain(incoming: IncomingMessage): void {
    const asked = this.#upstream
    this.#cacheable = undefined
    incoming.on('error', () => undefined)
    this.#repeat(true)
    asked?.destroy()
  }

  /** SECURITY: I7. The rules must not have changed since the first attempt. */
  #repeat(mayRepeat: boolean): void {
    if (this.#exchange.sandbox.spec === this.#spec) this.#send(mayRepeat)
    else this.#refuse(STALE)
  }

  #cache(incoming: IncomingMessage, head: ResponseHead): void {
    const { packages } = this.#exchange.sandbox.parts
    const response =
      this.#cacheable && cacheableResponseOf(head, incoming.headers['transfer-encoding'] !== undefined)
    const address = this.#upstream?.socket && addressOf(this.#upstream.socket)
    if (!response || !this.#cacheable) return
    this.#writer = packages?.store({
      ...this.#cacheable,
      ...response,
      ...(address && { address: formatAddress(address) }),
    })
  }

  #count(bytesIn: number, bytesOut: number): void {
    this.#in += bytesIn
    this.#out += bytesOut
    if (!this.#spend || this.#spend(bytesIn + bytesOut)) return
    this.#refuse(
      newRefusal(
        429,
        'budget.bytes',
        'the byte budget of the rule is used up',
        'ask the user for a larger budget',
      ),
    )
  }

  #mayGoOn(): boolean {
    return mayContinue(this.#exchange, this.#upstream?.socket)
  }

  #noteAllowed(): void {
    if (this.#isNoted) return
    this.#isNoted = true
    this.#traffic.entry = noteAllowed(this.#exchange)
  }

  #fail(error: unknown): void {
    if (!this.#isOver) this.#refuse(refusalOfError(error))
  }

  #refuse(why: Refusal): void {
    if (this.#isOver) return
    const { req, res, sandbox } = this.#exchange
    noteRefused(this.#exchange, why)
    this.#isOver = true
    this.#writer?.drop()
    this.#upstream?.destroy()
    answerRefusal({ req, res, clock: sandbox.parts.clock }, why)
  }

  #end(): void {
    this.#isOver = true
    this.#writer?.drop()
    this.#upstream?.destroy()
    this.#exchange.res.destroy()
  }

  #close(): void {
    this.#isOver = true
    this.#writer?.drop()
    // A response that was cut does not end its transform.
    this.#through?.destroy()
    if (!this.#exchange.res.writableFinished) this.#upstream?.destroy()
    this.#release()
  }
}

/** From here on, turning bytes into text and back takes longer than a second piece. */
const SHORT_BYTES = 1024

const REPEATABLE = ['GET', 'HEAD', 'OPTIONS']

/** Trailers that Node does not accept are dropped. */
function addTrailers(res: ServerResponse, raw: readonly string[]): void {
  if (raw.length === 0 || checkTrailers(raw)) return
  try {
    res.addTrailers(trailers(raw))
  } catch {
    // The body is complete without trailers.
  }
}

function trailers(raw: readonly string[]): [string, string][] {
  return pairs(raw).map(([name, value]) => [name, value])
}

/** Node writes a text in one piece with the head that waits to be sent, and bytes in a piece of their own. */
function write(to: Writable, chunk: Buffer): boolean {
  return chunk.length <= SHORT_BYTES ? to.write(chunk.toString('latin1'), 'latin1') : to.write(chunk)
}

/**
 * Copies with back-pressure; the caller ends `to`. `cache` receives a copy and may slow the transfer for a
 * moment.
 */
function pump(
  from: Readable,
  to: Writable,
  onBytes: (bytes: number) => void,
  cache?: PackageWriter | undefined,
): void {
  const resume = (): void => {
    if (!cache?.isBehind && !to.writableNeedDrain) from.resume()
  }
  from.on('data', (chunk: Buffer) => {
    onBytes(chunk.length)
    cache?.add(chunk)
    if ((!to.destroyed && !to.writableEnded && !write(to, chunk)) || cache?.isBehind) from.pause()
  })
  to.on('drain', resume)
  cache?.onRelief(resume)
  from.resume()
}
