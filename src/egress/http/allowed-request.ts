/** A request that the policy allowed and that is being forwarded, as an exchange or as a WebSocket. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Judgement } from '../decide/judge.ts'
import type { SandboxEgress } from '../decide/sandbox-egress.ts'
import type { Via } from '../destination.ts'
import type { CacheableRequest } from '../packages/cacheable.ts'
import { mayDial } from '../reach/route.ts'
import type { RecordEntry } from '../record/records.ts'
import { failed, outcomeOf, type Refusal } from '../refusal.ts'
import { addressOf } from './connect-site.ts'
import type { Site } from './request-target.ts'
import type { RequestTransform } from './request-transform.ts'

export interface AllowedRequest {
  readonly req: IncomingMessage
  readonly sandbox: SandboxEgress
  readonly site: Site
  readonly via: Via
  readonly judgement: Judgement
  readonly transform: RequestTransform
}

export interface Exchange extends AllowedRequest {
  readonly res: ServerResponse
  /** Set if the response may come from the package cache, and be stored in it. */
  readonly cacheable?: CacheableRequest | undefined
}

export const LARGEST_HEAD = 64 * 1024

export function noteAllowed({ sandbox, site, via, judgement, transform }: AllowedRequest): RecordEntry {
  const { reason, message } = judgement
  const request = transform.head
  return sandbox.note({
    outcome: 'allowed',
    destination: site.destination,
    via,
    reason,
    message,
    judgement,
    request,
  })
}

export function noteRefused(
  { sandbox, site, via, judgement, transform }: AllowedRequest,
  why: Refusal,
): void {
  const { reason, message } = why
  const request = transform.head
  sandbox.note({
    outcome: outcomeOf(why),
    destination: site.destination,
    via,
    reason,
    message,
    judgement,
    request,
  })
}

/** Whether the current policy still allows the request and the address it was sent to. */
export function mayContinue(
  { sandbox, site, transform }: AllowedRequest,
  socket: Duplex | null | undefined,
): boolean {
  const judgement = sandbox.judge(site.destination, transform.head)
  if (!judgement.allowed) return false
  const address = socket && addressOf(socket)
  return !address || mayDial(sandbox.routeParts, address, judgement.allowPrivate)
}

/** SECURITY: SE-04. A response that is compressed by Transfer-Encoding could not be searched for secrets. */
export function isPlainlyCoded({ headers }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  return coding === undefined || coding.trim().toLowerCase() === 'chunked'
}

export function unsupportedCoding(): Error {
  return failed(
    'upstream.coding',
    'the response has a Transfer-Encoding that is not forwarded',
    'request another encoding',
  )
}
