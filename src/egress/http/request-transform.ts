/** How secrets change an allowed request and its response. */
import type { Duplex, Transform } from 'node:stream'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import type { Via } from '../destination.ts'
import type { Refusal } from '../refusal.ts'
import type { RequestHead, ResponseHead } from './head.ts'
import type { Site } from './request-target.ts'

/** The changes to one request and its response. The members are called in this order, each at most once. */
export interface RequestTransform {
  /** The head to send. The engine sets Host, Content-Length, Transfer-Encoding and Connection itself. */
  readonly head: RequestHead
  /** The request body passes through it, and is sent chunked unless `isSameLength`. */
  readonly bodyOut?: Transform | undefined
  readonly isSameLength?: true | undefined
  /** Checks the trailers of the request, as Node lists them. */
  checkTrailers?(raw: readonly string[]): Refusal | undefined
  /** The refusal to send for an error of `bodyOut`; undefined closes the connection. */
  refusalOf?(error: Error): Refusal | undefined
  response?(head: ResponseHead): ResponseHead
  /** Called with the head of the response. The response then has no Content-Length, unless `isSameLength`. */
  bodyIn?(head: ResponseHead): Transform | undefined
  /** Trailers of a response whose body passes through `bodyIn`; without this method they are dropped. */
  trailersIn?(raw: readonly string[]): string[]
  /** The two directions of a WebSocket, after a 101. */
  framesOut?(): Duplex
  framesIn?(): Duplex
}

export interface PolicyAllowedRequest {
  readonly head: RequestHead
  readonly site: Site
  readonly sandbox: SandboxEgress
  readonly via: Via
}

/**
 * Called for each request that the policy allows, before anything is resolved or sent. A refusal is recorded.
 */
export type TransformRequest = (request: PolicyAllowedRequest) => RequestTransform | Refusal
