/** Serves a cached package. Policy, budget and records treat it like a response from the server. */
import { readAddress } from '../../policy/address.ts'
import { type AllowedRequest, type Exchange, noteAllowed, noteRefused } from '../http/allowed-request.ts'
import { flat, type Header } from '../http/head.ts'
import { answerRefusal } from '../http/refuse.ts'
import { mayDial } from '../reach/route.ts'
import { IDLE_MS } from '../reach/splice.ts'
import { Traffic } from '../record/traffic.ts'
import { newRefusal } from '../refusal.ts'
import type { PackageReader } from './reader.ts'

/**
 * SECURITY: NW-03, NW-10. A sandbox only gets a cached file if it may reach the address that the file came
 * from.
 */
export function mayReplay({ sandbox, site, transform }: AllowedRequest, { head }: PackageReader): boolean {
  const judgement = sandbox.judge(site.destination, transform.head)
  if (!judgement.allowed) return false
  // An upstream proxy resolves names itself, so addresses are not checked.
  if (sandbox.parts.upstreamProxy) return true
  const address = head.address === undefined ? undefined : readAddress(head.address)
  return address !== undefined && mayDial(sandbox.routeParts, address, judgement.allowPrivate)
}

/** Closes the reader when done. */
export function replay(exchange: Exchange, cached: PackageReader): Promise<void> {
  return new Replay(exchange, cached).start()
}

class Replay {
  readonly #exchange: Exchange
  readonly #cached: PackageReader
  readonly #spend: ((bytes: number) => boolean) | undefined
  readonly #traffic = new Traffic(() => [this.#sent, 0])
  #sent = 0
  #isOver = false
  #cancelIdle: () => void = () => undefined

  constructor(exchange: Exchange, cached: PackageReader) {
    this.#exchange = exchange
    this.#cached = cached
    this.#spend = exchange.sandbox.budgets.spender(exchange.judgement.rule)
  }

  async start(): Promise<void> {
    const { req, res, sandbox } = this.#exchange
    const release = sandbox.add({
      mayContinue: () => mayReplay(this.#exchange, this.#cached),
      cut: () => this.#end(),
      recordTraffic: () => this.#traffic.record(),
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
      // The file is damaged or unreadable: the response is incomplete, and a retry is answered by the server.
      this.#end()
    } finally {
      this.#cancelIdle()
      this.#cached.close()
    }
  }

  async #send(): Promise<void> {
    const { res } = this.#exchange
    const { bytes, headers } = this.#cached.head
    const framed: readonly Header[] = [
      ['Content-Length', String(bytes)],
      ['X-AgentPod-Cache', 'hit'],
    ]
    this.#expectSoon()
    res.sendDate = false
    res.writeHead(200, 'OK', flat([...headers, ...framed]))
    for await (const piece of this.#cached.pieces()) {
      if (this.#isOver || !this.#count(piece.length)) return
      if (!res.write(piece)) await this.#drained()
      this.#expectSoon()
    }
    if (!this.#isOver) res.end()
  }

  /** Limits the wait for the disk or the client. */
  #expectSoon(): void {
    this.#cancelIdle()
    this.#cancelIdle = this.#exchange.sandbox.parts.clock.after(IDLE_MS, () => this.#end())
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

  /** False if the byte budget is used up. */
  #count(bytes: number): boolean {
    this.#sent += bytes
    if (!this.#spend || this.#spend(bytes)) return true
    const { req, res, sandbox } = this.#exchange
    const why = newRefusal(
      429,
      'budget.bytes',
      'the byte budget of the rule is used up',
      'ask the user for a larger budget',
    )
    noteRefused(this.#exchange, why)
    this.#isOver = true
    answerRefusal({ req, res, clock: sandbox.parts.clock }, why)
    return false
  }

  #end(): void {
    this.#isOver = true
    this.#exchange.res.destroy()
  }
}
