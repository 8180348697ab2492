/**
 * Terminates TLS with a certificate of the sandbox's authority and passes the plain stream to
 * `HttpEngine.serve`. Tests implement this interface too.
 */
import type { Duplex } from 'node:stream'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import type { Destination, Via } from '../destination.ts'
import type { HttpEngine } from '../http/engine.ts'
import type { Refusal } from '../refusal.ts'
import type { ClientHello } from './client-hello.ts'

/** A TLS connection at its start: the complete ClientHello is still to be read from the stream. */
export interface InterceptedConnection {
  readonly stream: Duplex
  /** For a name, the SNI was checked to be equal. */
  readonly destination: Destination
  readonly via: Via
  readonly sandbox: SandboxEgress
  readonly hello: ClientHello
  readonly http: HttpEngine
}

export interface Interceptor {
  /**
   * Takes over the stream and destroys it when the sandbox closes. Only called if the sandbox has an
   * authority.
   */
  intercept(connection: InterceptedConnection): void
  /**
   * Completes the handshake, answers the first request with the refusal and closes. The refusal was recorded.
   */
  refuseInside(connection: InterceptedConnection, refusal: Refusal): void
}
