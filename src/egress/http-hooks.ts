/** Where secrets are put into requests that have been allowed, and kept out of answers. */
import type { Duplex, Transform } from 'node:stream'
import type { RequestHead, ResponseHead } from './http-head.ts'
import type { Site } from './http-target.ts'
import type { Link } from './link.ts'
import type { Refusal } from './refusal.ts'
import type { Via } from './target.ts'

/** What becomes of one request and its answer. Called in this order, each at most once. */
export interface Handling {
  /** What is sent. Its frame (Host, Content-Length, Transfer-Encoding, Connection) is set by the engine whatever stands here. */
  readonly head: RequestHead
  /** The body passes through it; the request then goes out chunked, unless what passes is as long as what came. */
  readonly bodyOut?: Transform | undefined
  readonly isSameLength?: true | undefined
  /** Looks at the trailers of the request, as Node lists them. */
  checkTrailers?(raw: readonly string[]): Refusal | undefined
  /** What an error of `bodyOut` says to the client; undefined cuts the connection. */
  refusalOf?(error: Error): Refusal | undefined
  response?(head: ResponseHead): ResponseHead
  /** Made when the head of the answer is known, which is when its coding is; the answer then has no Content-Length, unless it is as long. */
  bodyIn?(head: ResponseHead): Transform | undefined
  /** The trailers of an answer whose body passes through `bodyIn`; left out, it has none. */
  trailersIn?(raw: readonly string[]): string[]
  /** After a 101, the two directions of the websocket. */
  framesOut?(): Duplex
  framesIn?(): Duplex
}

export interface Hooks {
  /** For each request that the policy allows, before anything is resolved or sent. A refusal is answered and written down. */
  begin(request: {
    readonly head: RequestHead
    readonly site: Site
    readonly link: Link
    readonly via: Via
  }): Handling | Refusal
}

export const NO_HOOKS: Hooks = { begin: ({ head }) => ({ head }) }
