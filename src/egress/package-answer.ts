/** A kept package as the answer to a request that is allowed. To its policy, its budget and its record it is one that a server gave. */
import { readAddress } from '../policy/address.ts'
import { answerRefusal } from './http-answer.ts'
import { type Asking, type Exchange, noteAllowed, noteRefused } from './http-asking.ts'
import { flat, type Header } from './http-head.ts'
import type { PackageReader } from './package-reader.ts'
import { mayDial } from './reach.ts'
import { refusal } from './refusal.ts'
import { IDLE_MS } from './splice.ts'
import { Traffic } from './traffic.ts'

/** SECURITY: NW-03, NW-10. What came from an address that this sandbox may not reach is not for it, whoever downloaded it. */
export function mayReplay({ link, site, handling }: Asking, { head }: PackageReader): boolean {
  const judgement = link.judge(site.target, handling.head)
  if (!judgement.allowed) return false
  // A proxy looks names up itself, so nobody checks their addresses.
  if (link.parts.upstreamProxy) return true
  const address = head.address === undefined ? undefined : readAddress(head.address)
  return address !== undefined && mayDial(link.reachParts, address, judgement.allowPrivate)
}

/** Closes what was kept when it is done. */
export function replay(exchange: Exchange, kept: PackageReader): Promise<void> {
  return new Replay(exchange, kept).start()
}

class Replay {
  readonly #exchange: Exchange
  readonly #kept: PackageReader
  readonly #spend: ((bytes: number) => boolean) | undefined
  readonly #traffic = new Traffic(() => [this.#sent, 0])
  #sent = 0
  #isOver = false
  #cancelIdle: () => void = () => undefined

  constructor(exchange: Exchange, kept: PackageReader) {
    this.#exchange = exchange
    this.#kept = kept
    this.#spend = exchange.link.budgets.spender(exchange.judgement.rule)
  }

  async start(): Promise<void> {
    const { req, res, link } = this.#exchange
    const release = link.add({
      mayGoOn: () => mayReplay(this.#exchange, this.#kept),
      cut: () => this.#end(),
      settle: () => this.#traffic.settle(),
    })
    req.on('error', () => this.#end())
    res.on('error', () => this.#end())
    res.on('close', () => {
      this.#isOver = true
      release()
    })
    this.#traffic.entry = noteAllowed(this.#exchange)
    try {
      await this.#send()
    } catch {
      // Damaged, or no longer to be read: what was sent of it is not whole, and whoever asks again gets it from the server.
      this.#end()
    } finally {
      this.#cancelIdle()
      this.#kept.close()
    }
  }

  async #send(): Promise<void> {
    const { res } = this.#exchange
    const { bytes, headers } = this.#kept.head
    const framed: readonly Header[] = [
      ['Content-Length', String(bytes)],
      ['X-AgentPod-Cache', 'hit'],
    ]
    this.#expectSoon()
    res.sendDate = false
    res.writeHead(200, 'OK', flat([...headers, ...framed]))
    for await (const piece of this.#kept.pieces()) {
      if (this.#isOver || !this.#count(piece.length)) return
      if (!res.write(piece)) await this.#drained()
      this.#expectSoon()
    }
    if (!this.#isOver) res.end()
  }

  /** Either the disk or the client is waited for. */
  #expectSoon(): void {
    this.#cancelIdle()
    this.#cancelIdle = this.#exchange.link.parts.clock.after(IDLE_MS, () => this.#end())
  }

  #drained(): Promise<void> {
    const { res } = this.#exchange
    return new Promise((resolve) => {
      const done = (): void => {
        res.off('drain', done).off('close', done)
        resolve()
      }
      if (this.#isOver) done()
      else res.on('drain', done).on('close', done)
    })
  }

  /** False where it was the last that may be sent. */
  #count(bytes: number): boolean {
    this.#sent += bytes
    if (!this.#spend || this.#spend(bytes)) return true
    const { req, res, link } = this.#exchange
    const why = refusal(
      429,
      'budget.bytes',
      'the bytes that a rule grants are used up',
      'ask the user for more',
    )
    noteRefused(this.#exchange, why)
    this.#isOver = true
    answerRefusal({ req, res, clock: link.parts.clock }, why)
    return false
  }

  #end(): void {
    this.#isOver = true
    this.#exchange.res.destroy()
  }
}
