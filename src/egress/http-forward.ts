/** One request that is allowed, sent on to the checked address, and its answer sent back as it comes. Redirects are the client's business (NW-23). */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import { answerRefusal } from './http-answer.ts'
import {
  type Asking,
  isPlainlyCoded,
  LARGEST_HEAD,
  mayGoOn,
  noteAllowed,
  noteRefused,
  unreadable,
} from './http-asking.ts'
import { checkTrailers } from './http-check.ts'
import { connectSite } from './http-connect.ts'
import { endToEnd, flat, type Header, pairs, type ResponseHead, valuesOf, without } from './http-head.ts'
import { hostHeader } from './http-target.ts'
import { type Refusal, refusal, refusalOfError } from './refusal.ts'
import { IDLE_MS } from './splice.ts'
import { hostText } from './target.ts'
import { Traffic } from './traffic.ts'

export interface Exchange extends Asking {
  readonly res: ServerResponse
}

/** The body as its head announces it. */
type Body = 'none' | 'length' | 'chunked'

export async function forward(exchange: Exchange): Promise<void> {
  const { req } = exchange
  const body = bodyOf(req)
  // SECURITY: NW-21. Node hands a request over before it has seen the first chunk, which may be none.
  if (body === 'chunked' && !req.headers.expect && !(await hasBegun(req))) return
  if (!exchange.res.destroyed) new Forwarding(exchange, body).start()
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
  readonly #spend: ((bytes: number) => boolean) | undefined
  readonly #traffic = new Traffic(() => [this.#in, this.#out])
  #upstream: ClientRequest | undefined
  #release: () => void = () => undefined
  #isNoted = false
  #isOver = false
  #in = 0
  #out = 0

  constructor(exchange: Exchange, body: Body) {
    this.#exchange = exchange
    this.#body = body
    this.#spend = exchange.link.budgets.spender(exchange.judgement.rule)
  }

  start(): void {
    const { req, res, link } = this.#exchange
    this.#release = link.add({
      mayGoOn: () => this.#mayGoOn(),
      cut: () => this.#end(),
      settle: () => this.#traffic.settle(),
    })
    res.on('error', () => this.#end())
    res.on('close', () => this.#close())
    req.on('error', () => this.#end())
    this.#send(this.#body === 'none' && REPEATABLE.includes(this.#exchange.handling.head.method))
  }

  #send(mayRepeat: boolean): void {
    const { link, site, judgement, handling } = this.#exchange
    const { method, path } = handling.head
    const key = `${site.scheme} ${hostText(site.target)} ${site.target.port} ${judgement.allowPrivate}`
    const upstream = request({
      agent: link.agents.get(key, () => connectSite(link, site, judgement)),
      host: hostText(site.target),
      port: site.target.port,
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
      // A server may close a connection that was kept just as it is used again.
      if (mayRepeat && upstream.reusedSocket && !this.#isOver && !this.#exchange.res.headersSent)
        this.#send(false)
      else this.#fail(error)
    })
    upstream.on('timeout', () => upstream.destroy(new Error('there was no answer in time')))
    upstream.on('continue', () => this.#exchange.res.writeContinue())
    // SECURITY: what a server says before its answer goes no further: Node takes seconds over some hints, and dies of others.
    upstream.on('response', (incoming) => this.#answer(incoming))
    // A server that switches where nobody asked to is not understood by anybody.
    upstream.on('upgrade', (_, socket) => {
      socket.destroy()
      this.#fail(new Error('the server changed protocols unasked'))
    })
    this.#sendBody(upstream)
  }

  #headers(): Header[] {
    const { site, handling } = this.#exchange
    const framed: Header[] = [['Host', hostHeader(site)]]
    let rest = without(handling.head.headers, 'host')
    if (this.#body === 'none') {
      // Node would call the body of a POST chunked, which there is none of.
      if (
        handling.head.method !== 'GET' &&
        handling.head.method !== 'HEAD' &&
        valuesOf(rest, 'content-length').length === 0
      )
        rest = [...rest, ['Content-Length', '0']]
    } else if (this.#body === 'chunked' || (handling.bodyOut && !handling.isSameLength))
      rest = [...without(rest, 'content-length'), ['Transfer-Encoding', 'chunked']]
    return [...framed, ...rest]
  }

  #sendBody(upstream: ClientRequest): void {
    const { req, handling } = this.#exchange
    if (this.#body === 'none') return void upstream.end()
    if (req.headers.expect) upstream.flushHeaders()
    const source = handling.bodyOut ? req.pipe(handling.bodyOut) : req
    handling.bodyOut?.on('error', (error) => {
      const why = handling.refusalOf?.(error)
      if (why) this.#refuse(why)
      else this.#end()
    })
    pump(source, upstream, (bytes) => this.#count(0, bytes))
    source.once('end', () => {
      const bad = checkTrailers(req.rawTrailers) ?? handling.checkTrailers?.(req.rawTrailers)
      // What is chunked and not finished is no request.
      if (bad) return this.#refuse(bad)
      if (req.rawTrailers.length > 0) upstream.addTrailers(trailers(req.rawTrailers))
      upstream.end()
    })
  }

  #answer(incoming: IncomingMessage): void {
    const { res, handling } = this.#exchange
    let head: ResponseHead = {
      status: incoming.statusCode ?? 502,
      message: incoming.statusMessage ?? '',
      headers: endToEnd(pairs(incoming.rawHeaders)),
    }
    head = handling.response?.(head) ?? head
    const through = handling.bodyIn?.(head)
    const isLonger = through && !handling.isSameLength
    const headers = isLonger ? without(head.headers, 'content-length') : head.headers
    if (res.destroyed || this.#isOver) return void incoming.destroy()
    if (!isPlainlyCoded(incoming)) return void this.#fail(unreadable())
    try {
      res.sendDate = false
      res.writeHead(head.status, head.message, flat(headers))
      res.flushHeaders()
    } catch {
      return void this.#fail(new Error('the answer is malformed'))
    }
    incoming.on('error', () => this.#end())
    through?.on('error', () => this.#end())
    const source = through ? incoming.pipe(through) : incoming
    pump(source, res, (bytes) => this.#count(bytes, 0))
    source.once('end', () => {
      if (!incoming.complete) return this.#end()
      // SECURITY: SE-04. A value in a trailer is a value.
      addTrailers(res, through ? (handling.trailersIn?.(incoming.rawTrailers) ?? []) : incoming.rawTrailers)
      res.end()
    })
  }

  #count(bytesIn: number, bytesOut: number): void {
    this.#in += bytesIn
    this.#out += bytesOut
    if (!this.#spend || this.#spend(bytesIn + bytesOut)) return
    this.#refuse(
      refusal(429, 'budget.bytes', 'the bytes that a rule grants are used up', 'ask the user for more'),
    )
  }

  #mayGoOn(): boolean {
    return mayGoOn(this.#exchange, this.#upstream?.socket)
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
    const { req, res, link } = this.#exchange
    noteRefused(this.#exchange, why)
    this.#isOver = true
    this.#upstream?.destroy()
    answerRefusal({ req, res, clock: link.parts.clock }, why)
  }

  #end(): void {
    this.#isOver = true
    this.#upstream?.destroy()
    this.#exchange.res.destroy()
  }

  #close(): void {
    this.#isOver = true
    if (!this.#exchange.res.writableFinished) this.#upstream?.destroy()
    this.#release()
  }
}

const REPEATABLE = ['GET', 'HEAD', 'OPTIONS']

/** Trailers are the server's words: what Node does not take is left out. */
function addTrailers(res: ServerResponse, raw: readonly string[]): void {
  if (raw.length === 0 || checkTrailers(raw)) return
  try {
    res.addTrailers(trailers(raw))
  } catch {
    // The body is whole without them.
  }
}

/** Hop by hop as ever, but with what each side announces left as it is. */
function trailers(raw: readonly string[]): [string, string][] {
  return pairs(raw).map(([name, value]) => [name, value])
}

/** Back-pressure both ways; the end is the caller's. */
function pump(from: Readable, to: Writable, onBytes: (bytes: number) => void): void {
  from.on('data', (chunk: Buffer) => {
    onBytes(chunk.length)
    if (!to.destroyed && !to.writableEnded && !to.write(chunk)) from.pause()
  })
  to.on('drain', () => from.resume())
  from.resume()
}
