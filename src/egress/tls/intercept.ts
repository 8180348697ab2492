/**
 * Decrypts TLS with a certificate of the sandbox's own authority, and passes the plain stream to the HTTP
 * engine.
 */
import { TLSSocket } from 'node:tls'
import type { Clock } from '../../util/clock.ts'
import { hostText } from '../destination.ts'
import { endWithRefusal } from '../http/refuse.ts'
import type { Refusal } from '../refusal.ts'
import { serveHttp2 } from './http2.ts'
import type { InterceptedConnection, Interceptor } from './interceptor.ts'
import { LeafCertificates } from './leaf-certificates.ts'

const HANDSHAKE_MS = 15_000
const FIRST_REQUEST_MS = 10_000

export class TlsInterceptor implements Interceptor {
  readonly #certificates: LeafCertificates
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
    this.#certificates = new LeafCertificates(clock)
  }

  intercept(connection: InterceptedConnection): void {
    const { sandbox, destination, via, http } = connection
    const site = { scheme: 'https', destination } as const
    this.#open(connection, ['h2', 'http/1.1'], (stream) => {
      if (stream.alpnProtocol === 'h2') serveHttp2({ stream, sandbox, site, via, http })
      else http.serve({ stream, sandbox, site, via })
    })
  }

  /** Waits for the first request: many clients treat a response before their request as an error. */
  refuseInside(connection: InterceptedConnection, refusal: Refusal): void {
    this.#open(connection, ['http/1.1'], (stream) => {
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

  #open(
    { stream, destination, sandbox }: InterceptedConnection,
    ALPNProtocols: string[],
    then: (stream: TLSSocket) => void,
  ): void {
    const { authority } = sandbox.spec
    if (!authority) return void stream.destroy()
    const secureContext = this.#certificates.context(authority, hostText(destination))
    const tls = new TLSSocket(stream, { isServer: true, secureContext, ALPNProtocols })
    const cancel = this.#clock.after(HANDSHAKE_MS, () => tls.destroy())
    const gone = (): void => {
      cancel()
      tls.destroy()
    }
    // A client that does not trust the authority sends an alert, which is an error here.
    tls.on('error', gone)
    tls.once('close', gone)
    stream.once('close', gone)
    tls.once('secure', () => {
      cancel()
      then(tls)
    })
  }
}
