/** A websocket: asked for as a request, then bytes both ways. Other protocols to change to are not passed on, and the request is an ordinary one. */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { endWithRefusal } from './http-answer.ts'
import {
  type Asking,
  isPlainlyCoded,
  LARGEST_HEAD,
  mayGoOn,
  noteAllowed,
  noteRefused,
  unreadable,
} from './http-asking.ts'
import { isPlainHeader } from './http-check.ts'
import { connectSite } from './http-connect.ts'
import { endToEnd, flat, type Header, pairs, without } from './http-head.ts'
import { hostHeader } from './http-target.ts'
import { denied, refusalOfError } from './refusal.ts'
import { IDLE_MS, splice } from './splice.ts'
import { hostText } from './target.ts'
import { Traffic } from './traffic.ts'

export interface Upgrade extends Asking {
  /** The client's connection, what came behind the head put back. */
  readonly stream: Duplex
}

const ANSWER_MS = 30_000

export async function forwardUpgrade(upgrade: Upgrade): Promise<void> {
  return new Upgrading(upgrade).start()
}

/** SECURITY: I7. Known to its link from the first moment to the last, so that a policy that changes at any of them cuts it. */
class Upgrading {
  readonly #upgrade: Upgrade
  readonly #bytes = { in: 0, out: 0 }
  readonly #traffic = new Traffic(() => [this.#bytes.in, this.#bytes.out])
  readonly #spend: ((bytes: number) => boolean) | undefined
  #release: () => void = () => undefined
  #outside: Duplex | undefined
  #upstream: ClientRequest | undefined
  #isAnswered = false

  constructor(upgrade: Upgrade) {
    this.#upgrade = upgrade
    this.#spend = upgrade.link.budgets.spender(upgrade.judgement.rule)
  }

  async start(): Promise<void> {
    const { stream, link, site, judgement } = this.#upgrade
    this.#release = link.add({
      mayGoOn: () => this.#mayGoOn(),
      cut: () => this.#cut(),
      settle: () => this.#traffic.settle(),
    })
    stream.on('close', () => this.#cut())
    try {
      this.#outside = await connectSite(link, site, judgement)
    } catch (error) {
      return this.#fail(error)
    }
    if (stream.destroyed) return this.#cut()
    this.#ask(this.#outside)
  }

  #ask(outside: Duplex): void {
    const { site, handling } = this.#upgrade
    const headers: Header[] = [
      ['Host', hostHeader(site)],
      ...without(handling.head.headers, 'host'),
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
    ]
    const upstream = request({
      createConnection: () => outside,
      host: hostText(site.target),
      method: handling.head.method,
      path: handling.head.path,
      headers: flat(headers),
      setHost: false,
      timeout: ANSWER_MS,
      maxHeaderSize: LARGEST_HEAD,
    })
    this.#upstream = upstream
    upstream.on('timeout', () => upstream.destroy(new Error('there was no answer in time')))
    upstream.on('error', (error) => this.#fail(error))
    upstream.on('response', (answer) => this.#relay(answer))
    upstream.on('upgrade', (answer, socket, first) => {
      if (first.length > 0) socket.unshift(first)
      this.#open(answer, socket)
    })
    upstream.end()
  }

  /** The server's own no, which is an ordinary answer; the connection ends with it, and its end is the end of the body. */
  #relay(answer: IncomingMessage): void {
    const { stream, handling } = this.#upgrade
    if (!isPlainlyCoded(answer)) return void this.#fail(unreadable())
    const head = this.#headOf(answer, answer.statusCode ?? 0)
    const through = handling.bodyIn?.(head)
    if (!this.#begin(head.status, head.message, [...frameless(head.headers), ['Connection', 'close']])) return
    this.#upstream?.setTimeout(IDLE_MS)
    const body: Readable = through ? answer.pipe(through) : answer
    for (const one of [answer, body]) one.on('error', () => this.#cut())
    body.on('data', (chunk: Buffer) => this.#count(chunk.length, 0))
    body.pipe(stream)
  }

  #open(answer: IncomingMessage, outside: Duplex): void {
    const { stream, handling } = this.#upgrade
    const { headers } = this.#headOf(answer, 101)
    const framed: Header[] = [...frameless(headers), ['Connection', 'Upgrade'], ['Upgrade', 'websocket']]
    if (!this.#begin(101, 'Switching Protocols', framed)) return void outside.destroy()
    outside.on('error', () => this.#cut())
    stream.on('data', (chunk: Buffer) => this.#count(0, chunk.length))
    outside.on('data', (chunk: Buffer) => this.#count(chunk.length, 0))
    const [framesOut, framesIn] = [handling.framesOut?.(), handling.framesIn?.()]
    splice({ inside: stream, outside }, { framesOut, framesIn }, () => this.#cut())
  }

  #headOf(answer: IncomingMessage, status: number) {
    const written = {
      status: status >= 100 && status <= 599 ? status : 502,
      message: answer.statusMessage ?? '',
      headers: endToEnd(pairs(answer.rawHeaders)),
    }
    return this.#upgrade.handling.response?.(written) ?? written
  }

  /** Writes the head and the record of an answer. False, with nothing written, where the rules have changed meanwhile. */
  #begin(status: number, message: string, headers: readonly Header[]): boolean {
    const { stream, link } = this.#upgrade
    if (link.signal.aborted || stream.destroyed || !this.#mayGoOn()) {
      this.#fail(denied('policy.changed', 'the rules changed while this was under way', 'try again'))
      return false
    }
    this.#isAnswered = true
    this.#traffic.entry = noteAllowed(this.#upgrade)
    const lines = headers.filter(isPlainHeader).map(([name, value]) => `${name}: ${value}\r\n`)
    const words = message.replaceAll(/[^ -~]/g, '?').slice(0, 200)
    stream.write(`HTTP/1.1 ${status} ${words}\r\n${lines.join('')}\r\n`, 'latin1')
    return true
  }

  #count(bytesIn: number, bytesOut: number): void {
    this.#bytes.in += bytesIn
    this.#bytes.out += bytesOut
    if (this.#spend && !this.#spend(bytesIn + bytesOut)) this.#cut()
  }

  #mayGoOn(): boolean {
    return mayGoOn(this.#upgrade, this.#outside)
  }

  #fail(error: unknown): void {
    if (this.#isAnswered) return void this.#cut()
    this.#isAnswered = true
    const { stream, link } = this.#upgrade
    const why = refusalOfError(error)
    noteRefused(this.#upgrade, why)
    this.#upstream?.destroy()
    this.#outside?.destroy()
    this.#release()
    endWithRefusal(stream, why, link.parts.clock)
  }

  #cut(): void {
    this.#isAnswered = true
    this.#upstream?.destroy()
    this.#outside?.destroy()
    this.#upgrade.stream.destroy()
    this.#release()
  }
}

function frameless(headers: readonly Header[]): Header[] {
  return without(without(headers, 'content-length'), 'trailer')
}
