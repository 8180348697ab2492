/** One request that is allowed, sent on to the checked address, and its answer sent back as it comes. Redirects are the client's business (NW-23). */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Readable, Transform, Writable } from 'node:stream'
import { formatAddress } from '../policy/address.ts'
import type { LinkSpec } from './control.ts'
import { answerRefusal } from './http-answer.ts'
import {
  type Exchange,
  isPlainlyCoded,
  LARGEST_HEAD,
  mayGoOn,
  noteAllowed,
  noteRefused,
  unreadable,
} from './http-asking.ts'
import { checkTrailers } from './http-check.ts'
import { addressOf, connectSite } from './http-connect.ts'
import { endToEnd, flat, type Header, pairs, type ResponseHead, valuesOf, without } from './http-head.ts'
import { hostHeader } from './http-target.ts'
import { mayReplay, replay } from './package-answer.ts'
import { keepableOf, PLAIN_QUESTION, WANTS_MORE, type Wanted } from './package-request.ts'
import type { PackageWriter } from './package-writer.ts'
import { type Refusal, refusal, refusalOfError } from './refusal.ts'
import { IDLE_MS } from './splice.ts'
import { hostText } from './target.ts'
import { Traffic } from './traffic.ts'

const STALE = refusal(403, 'policy.changed', 'the rules changed while this was being asked', 'try again')

/** The body as its head announces it. */
type Body = 'none' | 'length' | 'chunked'

export async function forward(exchange: Exchange): Promise<void> {
  const { req, res, link } = exchange
  const { spec } = link
  const body = bodyOf(req)
  // SECURITY: NW-21. Node hands a request over before it has seen the first chunk, which may be none.
  if (body === 'chunked' && !req.headers.expect && !(await hasBegun(req))) return
  const wanted = body === 'none' ? exchange.wanted : undefined
  const kept = wanted && (await link.parts.packages?.find(wanted.url))
  const isGone = res.destroyed || link.signal.aborted
  // SECURITY: I7. What was decided before the rules changed is not what they say now.
  const isStale = link.spec !== spec
  if (kept && !isGone && !isStale && mayReplay(exchange, kept)) return replay(exchange, kept)
  kept?.close()
  if (isGone) return void res.destroy()
  if (isStale) return refuseStale(exchange)
  new Forwarding(exchange, { body, wanted }).start()
}

function refuseStale(exchange: Exchange): void {
  const { req, res, link } = exchange
  noteRefused(exchange, STALE)
  answerRefusal({ req, res, clock: link.parts.clock }, STALE)
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
  /** Set as long as it is asked for in our words, so that the answer may be kept. */
  #wanted: Wanted | undefined
  #writer: PackageWriter | undefined
  #through: Transform | undefined
  #upstream: ClientRequest | undefined
  #release: () => void = () => undefined
  #isNoted = false
  #isOver = false
  #in = 0
  #out = 0

  constructor(
    exchange: Exchange,
    { body, wanted }: { readonly body: Body; readonly wanted: Wanted | undefined },
  ) {
    this.#exchange = exchange
    this.#body = body
    this.#spec = exchange.link.spec
    this.#wanted = exchange.link.parts.packages && wanted
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
      if (this.#upstream !== upstream) return
      // A server may close a connection that was kept just as it is used again.
      if (mayRepeat && upstream.reusedSocket && !this.#isOver && !this.#exchange.res.headersSent)
        this.#repeat(false)
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
    if (this.#wanted) return [...framed, ...PLAIN_QUESTION]
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
    this.#through = through
    const isLonger = through && !handling.isSameLength
    const headers = isLonger ? without(head.headers, 'content-length') : head.headers
    if (res.destroyed || this.#isOver) return void incoming.destroy()
    if (this.#wanted && WANTS_MORE.includes(head.status)) return void this.#askAgain(incoming)
    if (!isPlainlyCoded(incoming)) return void this.#fail(unreadable())
    try {
      res.sendDate = false
      res.writeHead(head.status, head.message, flat(headers))
      res.flushHeaders()
    } catch {
      return void this.#fail(new Error('the answer is malformed'))
    }
    this.#keep(incoming, head)
    incoming.on('error', () => this.#end())
    through?.on('error', () => this.#end())
    const source = through ? incoming.pipe(through) : incoming
    pump(source, res, (bytes) => this.#count(bytes, 0), this.#writer)
    source.once('end', () => {
      if (!incoming.complete) return this.#end()
      if (incoming.rawTrailers.length === 0) this.#writer?.finish()
      // SECURITY: SE-04. A value in a trailer is a value.
      addTrailers(res, through ? (handling.trailersIn?.(incoming.rawTrailers) ?? []) : incoming.rawTrailers)
      res.end()
    })
  }

  /** In the words of the client, and for it alone. */
  #askAgain(incoming: IncomingMessage): void {
    const asked = this.#upstream
    this.#wanted = undefined
    incoming.on('error', () => undefined)
    this.#repeat(true)
    asked?.destroy()
  }

  /** SECURITY: I7. A second connection is by rules that hold still. */
  #repeat(mayRepeat: boolean): void {
    if (this.#exchange.link.spec === this.#spec) this.#send(mayRepeat)
    else this.#refuse(STALE)
  }

  #keep(incoming: IncomingMessage, head: ResponseHead): void {
    const { packages } = this.#exchange.link.parts
    const keepable = this.#wanted && keepableOf(head, incoming.headers['transfer-encoding'] !== undefined)
    const address = this.#upstream?.socket && addressOf(this.#upstream.socket)
    if (!keepable || !this.#wanted) return
    this.#writer = packages?.keep({
      ...this.#wanted,
      ...keepable,
      ...(address && { address: formatAddress(address) }),
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
    this.#writer?.drop()
    this.#upstream?.destroy()
    answerRefusal({ req, res, clock: link.parts.clock }, why)
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
    // Of an answer that was cut nobody else tells it.
    this.#through?.destroy()
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

/** Back-pressure both ways; the end is the caller's. What is kept besides is as long as it is no burden. */
function pump(
  from: Readable,
  to: Writable,
  onBytes: (bytes: number) => void,
  beside?: PackageWriter | undefined,
): void {
  const goOn = (): void => {
    if (!beside?.isBehind && !to.writableNeedDrain) from.resume()
  }
  from.on('data', (chunk: Buffer) => {
    onBytes(chunk.length)
    beside?.take(chunk)
    if ((!to.destroyed && !to.writableEnded && !to.write(chunk)) || beside?.isBehind) from.pause()
  })
  to.on('drain', goOn)
  beside?.onRelief(goOn)
  from.resume()
}
