/** A request that is allowed and under way, whether it becomes an exchange or a websocket. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { addressOf } from './http-connect.ts'
import type { Handling } from './http-hooks.ts'
import type { Site } from './http-target.ts'
import type { Judgement } from './judge.ts'
import type { Link } from './link.ts'
import type { Wanted } from './package-request.ts'
import { mayDial } from './reach.ts'
import type { Entry } from './records.ts'
import { failed, outcomeOf, type Refusal } from './refusal.ts'
import type { Via } from './target.ts'

export interface Asking {
  readonly req: IncomingMessage
  readonly link: Link
  readonly site: Site
  readonly via: Via
  readonly judgement: Judgement
  readonly handling: Handling
}

export interface Exchange extends Asking {
  readonly res: ServerResponse
  /** Where the answer may come from the cache of packages, and go there. */
  readonly wanted?: Wanted | undefined
}

export const LARGEST_HEAD = 64 * 1024

export function noteAllowed({ link, site, via, judgement, handling }: Asking): Entry {
  const { reason, message } = judgement
  const request = handling.head
  return link.note({ outcome: 'allowed', target: site.target, via, reason, message, judgement, request })
}

export function noteRefused({ link, site, via, judgement, handling }: Asking, why: Refusal): void {
  const { reason, message } = why
  const request = handling.head
  link.note({ outcome: outcomeOf(why), target: site.target, via, reason, message, judgement, request })
}

/** Whether the policy of this moment still allows the request, and the address that it went to. */
export function mayGoOn({ link, site, handling }: Asking, socket: Duplex | null | undefined): boolean {
  const judgement = link.judge(site.target, handling.head)
  if (!judgement.allowed) return false
  const address = socket && addressOf(socket)
  return !address || mayDial(link.reachParts, address, judgement.allowPrivate)
}

/** SECURITY: SE-04. A body that is packed for the way, and not for good, would be passed on packed and not looked through. */
export function isPlainlyCoded({ headers }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding']
  return coding === undefined || coding.trim().toLowerCase() === 'chunked'
}

export function unreadable(): Error {
  return failed(
    'upstream.coding',
    'the answer is packed in a way that is not passed on',
    'ask the server for another',
  )
}
