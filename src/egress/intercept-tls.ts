/** Opens TLS with a certificate of the sandbox's own authority, and hands what is inside to the engine that decides about requests. */
import { TLSSocket } from 'node:tls'
import type { Clock } from '../util/clock.ts'
import { endWithRefusal } from './http-answer.ts'
import { serveStreams } from './intercept-h2.ts'
import { Leaves } from './intercept-leaf.ts'
import type { Interceptor, Passage } from './interceptor.ts'
import type { Refusal } from './refusal.ts'
import { hostText } from './target.ts'

const HANDSHAKE_MS = 15_000
const FIRST_REQUEST_MS = 10_000

export class TlsInterceptor implements Interceptor {
  readonly #leaves: Leaves
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
    this.#leaves = new Leaves(clock)
  }

  intercept(passage: Passage): void {
    const { link, target, via, http } = passage
    const site = { scheme: 'https', target } as const
    this.#open(passage, ['h2', 'http/1.1'], (stream) => {
      if (stream.alpnProtocol === 'h2') serveStreams({ stream, link, site, via, http })
      else http.serve({ stream, link, site, via })
    })
  }

  /** A refusal is for the program that asks, so it waits for the question: an answer before it is an error to many clients. */
  refuseInside(passage: Passage, refusal: Refusal): void {
    this.#open(passage, ['http/1.1'], (stream) => {
      const cancel = this.#clock.after(FIRST_REQUEST_MS, () => stream.destroy())
      stream.once('close', cancel)
      stream.once('data', (first: Buffer) => {
        cancel()
        stream.pause()
        stream.unshift(first)
        endWithRefusal(stream, refusal, this.#clock)
      })
    })
  }

  #open({ stream, target, link }: Passage, ALPNProtocols: string[], then: (stream: TLSSocket) => void): void {
    const { authority } = link.spec
    if (!authority) return void stream.destroy()
    const secureContext = this.#leaves.context(authority, hostText(target))
    const tls = new TLSSocket(stream, { isServer: true, secureContext, ALPNProtocols })
    const cancel = this.#clock.after(HANDSHAKE_MS, () => tls.destroy())
    const gone = (): void => {
      cancel()
      tls.destroy()
    }
    // A client that does not trust the authority says so with an alert, which is an error here.
    tls.on('error', gone)
    tls.once('close', gone)
    stream.once('close', gone)
    tls.once('secure', () => {
      cancel()
      then(tls)
    })
  }
}
