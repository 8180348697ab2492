/** The seam to whoever opens TLS. It terminates TLS with a certificate of the sandbox's authority and hands the plain stream to `HttpEngine.serve`. */
import type { Duplex } from 'node:stream'
import type { ClientHello } from './client-hello.ts'
import type { HttpEngine } from './http-engine.ts'
import type { Link } from './link.ts'
import type { Refusal } from './refusal.ts'
import type { Target, Via } from './target.ts'

/** A TLS connection that stands at its beginning: the whole ClientHello is the next thing to be read from the stream. */
export interface Passage {
  readonly stream: Duplex
  /** What was asked for; for a name, the SNI has been found equal to it. */
  readonly target: Target
  readonly via: Via
  readonly link: Link
  readonly hello: ClientHello
  readonly http: HttpEngine
}

export interface Interceptor {
  /** The stream is the interceptor's from here on, and is destroyed when the link closes. Only called where the link has an authority. */
  intercept(passage: Passage): void
  /** Says a refusal inside TLS: handshakes, answers the first request with it and closes. The refusal has been written down. */
  refuseInside(passage: Passage, refusal: Refusal): void
}
