/**
 * A WebSocket: a request first, then bytes in both directions. An upgrade to another protocol is forwarded as
 * an ordinary request without the upgrade.
 */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { toPrintableAscii } from '../../util/hidden-characters.ts'
import { hostText } from '../destination.ts'
import { IDLE_MS, splice } from '../reach/splice.ts'
import { Traffic } from '../record/traffic.ts'
import { denied, refusalOfError } from '../refusal.ts'
import {
  type AllowedRequest,
  isPlainlyCoded,
  LARGEST_HEAD,
  mayContinue,
  noteAllowed,
  noteRefused,
  unsupportedCoding,
} from './allowed-request.ts'
import { isPlainHeader } from './check-head.ts'
import { connectSite } from './connect-site.ts'
import { endToEnd, flat, type Header, pairs, without } from './head.ts'
import { endWithRefusal } from './refuse.ts'
import { hostHeader } from './request-target.ts'

export interface Upgrade extends AllowedRequest {
  /** The connection of the client, with the bytes after the head put back. */
  readonly stream: Duplex
}

const ANSWER_MS = 30_000

export async function forwardUpgrade(upgrade: Upgrade): Promise<void> {
  return new Upgrading(upgrade).start()
}

/**
 * SECURITY: I7. Registered with its sandbox from start to end, so that a policy change can cut it at any
 * time.
 */
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
    this.#spend = upgrade.sandbox.budgets.spender(upgrade.judgement.rule)
  }

  async start(): Promise<void> {
    const { stream, sandbox, site, judgement } = this.#upgrade
    this.#release = sandbox.add({
      mayContinue: () => this.#mayGoOn(),
      cut: () => this.#cut(),
      recordTraffic: () => this.#traffic.record(),
    })
    stream.on('close', () => this.#cut())
    try {
      this.#outside = await connectSite(sandbox, site, judgement)
    } catch (error) {
      return this.#fail(error)
    }
    if (stream.destroyed) return this.#cut()
    this.#ask(this.#outside)
  }

  #ask(outside: Duplex): void {
    const { site, transform } = this.#upgrade
    const headers: Header[] = [
      ['Host', hostHeader(site)],
      ...without(transform.head.headers, 'host'),
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
    ]
    const upstream = request({
      createConnection: () => outside,
      host: hostText(site.destination),
      method: transform.head.method,
      path: transform.head.path,
      headers: flat(headers),
      setHost: false,
      timeout: ANSWER_MS,
      maxHeaderSize: LARGEST_HEAD,
    })
    this.#upstream = upstream
    upstream.on('timeout', () => upstream.destroy(new Error('the server did not answer in time')))
    upstream.on('error', (error) => this.#fail(error))
    upstream.on('response', (answer) => this.#relay(answer))
    upstream.on('upgrade', (answer, socket, first) => {
      if (first.length > 0) socket.unshift(first)
      this.#open(answer, socket)
    })
    upstream.end()
  }

  /**
   * The server refused the upgrade with an ordinary response. The end of the connection is the end of the
   * body.
   */
  #relay(answer: IncomingMessage): void {
    const { stream, transform } = this.#upgrade
    if (!isPlainlyCoded(answer)) return void this.#fail(unsupportedCoding())
    const head = this.#headOf(answer, answer.statusCode ?? 0)
    const through = transform.bodyIn?.(head)
    if (!this.#begin(head.status, head.message, [...frameless(head.headers), ['Connection', 'close']])) return
    this.#upstream?.setTimeout(IDLE_MS)
    const body: Readable = through ? answer.pipe(through) : answer
    for (const one of [answer, body]) one.on('error', () => this.#cut())
    body.on('data', (chunk: Buffer) => {
      if (!this.#count(chunk.length, 0)) this.#cut()
    })
    body.pipe(stream)
  }

  #open(answer: IncomingMessage, outside: Duplex): void {
    const { stream, transform } = this.#upgrade
    const { headers } = this.#headOf(answer, 101)
    const framed: Header[] = [...frameless(headers), ['Connection', 'Upgrade'], ['Upgrade', 'websocket']]
    if (!this.#begin(101, 'Switching Protocols', framed)) return void outside.destroy()
    outside.on('error', () => this.#cut())
    const spend = (bytesIn: number, bytesOut: number): boolean => this.#count(bytesIn, bytesOut)
    const [framesOut, framesIn] = [transform.framesOut?.(), transform.framesIn?.()]
    splice({ inside: stream, outside }, { spend, framesOut, framesIn }, () => this.#cut())
  }

  #headOf(answer: IncomingMessage, status: number) {
    const written = {
      status: status >= 100 && status <= 599 ? status : 502,
      message: answer.statusMessage ?? '',
      headers: endToEnd(pairs(answer.rawHeaders)),
    }
    return this.#upgrade.transform.response?.(written) ?? written
  }

  /**
   * Writes the head of the response and records it. Returns false and writes nothing if the rules have
   * changed.
   */
  #begin(status: number, message: string, headers: readonly Header[]): boolean {
    const { stream, sandbox } = this.#upgrade
    if (sandbox.signal.aborted || stream.destroyed || !this.#mayGoOn()) {
      this.#fail(denied('policy.changed', 'the network rules changed during this request', 'try again'))
      return false
    }
    this.#isAnswered = true
    this.#traffic.entry = noteAllowed(this.#upgrade)
    const lines = headers.filter(isPlainHeader).map(([name, value]) => `${name}: ${value}\r\n`)
    const words = toPrintableAscii(message).slice(0, 200)
    stream.write(`HTTP/1.1 ${status} ${words}\r\n${lines.join('')}\r\n`, 'latin1')
    return true
  }

  /** False if the byte budget is used up. */
  #count(bytesIn: number, bytesOut: number): boolean {
    this.#bytes.in += bytesIn
    this.#bytes.out += bytesOut
    return !this.#spend || this.#spend(bytesIn + bytesOut)
  }

  #mayGoOn(): boolean {
    return mayContinue(this.#upgrade, this.#outside)
  }

  #fail(error: unknown): void {
    if (this.#isAnswered) return void this.#cut()
    this.#isAnswered = true
    const { stream, sandbox } = this.#upgrade
    const why = refusalOfError(error)
    noteRefused(this.#upgrade, why)
    this.#upstream?.destroy()
    this.#outside?.destroy()
    this.#release()
    endWithRefusal(stream, why, sandbox.parts.clock)
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
