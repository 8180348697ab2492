/**
 * Which requests the package cache may answer, and which responses it may store. SECURITY: a sandbox only
 * chooses the URL of a cached response: the request for it is sent with fixed headers of AgentPod.
 */

import { hostText } from '../destination.ts'
import { type Header, listOf, type RequestHead, type ResponseHead, valuesOf } from '../http/head.ts'
import type { Site } from '../http/request-target.ts'
import type { RequestTransform } from '../http/request-transform.ts'
import { LARGEST_BODY } from './cache-file.ts'
import { readPackagePath } from './package-path.ts'

/** A request for a file that may be cached. */
export interface CacheableRequest {
  /** With scheme and port, so that different files have different URLs. */
  readonly url: string
  /** The expected hash of the content, if the URL contains it. */
  readonly sha256?: string | undefined
}

/** A response that may be cached. */
export interface CacheableResponse {
  /** The headers that are sent again. */
  readonly headers: readonly Header[]
  /** Absent if the response is chunked. */
  readonly bytes?: number | undefined
}

/**
 * Headers of package managers that do not affect the content of a version. A request with any other header,
 * such as a credential, a range, a condition or an unknown header, is not cached.
 */
const INERT: readonly string[] = [
  'accept',
  'accept-charset',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'cache-store',
  'expires',
  'host',
  'npm-auth-type',
  'npm-command',
  'npm-in-ci',
  'npm-scope',
  'npm-session',
  'pacote-integrity',
  'pacote-pkg-id',
  'pacote-req-type',
  'pacote-version',
  'pragma',
  'priority',
  'referer',
  'sec-fetch-dest',
  'sec-fetch-mode',
  'sec-fetch-site',
  'te',
  'user-agent',
]
/** Sent instead of them, in addition to Host. */
export const PLAIN_HEADERS: readonly Header[] = [
  ['Accept', '*/*'],
  ['Accept-Encoding', 'identity'],
  ['User-Agent', 'AgentPod'],
]
/** If the server answers the plain request with one of these, the original request is sent. */
export const RETRIED_STATUSES: readonly number[] = [400, 403, 406]

/** A response may vary by these headers: the plain request sends them with a fixed value or not at all. */
const MAY_VARY: readonly string[] = [
  'accept-encoding',
  'access-control-request-headers',
  'access-control-request-method',
  'origin',
]
const NEVER_KEPT: readonly string[] = ['no-store', 'private']
const REPLAYED: readonly string[] = ['Content-Type', 'ETag', 'Last-Modified']
const LONGEST_VALUE = 256
const LENGTH = /^[1-9][0-9]{0,15}$/

/** `head` is the original request, `transform` its change. The request must be allowed and have no body. */
export function cacheableRequestOf(o: {
  readonly head: RequestHead
  readonly transform: RequestTransform
  readonly site: Site
}): CacheableRequest | undefined {
  const { head, transform, site } = o
  if (head.method !== 'GET' || head.headers.some(([name]) => !INERT.includes(name.toLowerCase())))
    return undefined
  // SECURITY: a request that contains a secret, or whose response is masked, is not cached.
  if (transform.response || transform.bodyIn || !isSame(head, transform.head)) return undefined
  const file = readPackagePath(head.path)
  if (!file || (site.scheme !== 'https' && file.kind !== 'debian')) return undefined
  return { url: urlOf(site, head.path), ...(file.sha256 !== undefined && { sha256: file.sha256 }) }
}

function isSame(a: RequestHead, b: RequestHead): boolean {
  return (
    a.method === b.method && a.path === b.path && a.headers.flat().join('\n') === b.headers.flat().join('\n')
  )
}

/** INVARIANT: different sites and paths have different URLs. */
function urlOf({ scheme, destination }: Site, path: string): string {
  const host = destination.kind === 'name' ? destination.host : `[${hostText(destination)}]`
  return `${scheme}://${host}:${destination.port}${path}`
}

/**
 * Undefined if the response must not be cached. The head must be unchanged, except for hop-by-hop headers.
 */
export function cacheableResponseOf(head: ResponseHead, isChunked: boolean): CacheableResponse | undefined {
  const { status, headers } = head
  const has = (name: string): boolean => valuesOf(headers, name).length > 0
  if (status !== 200 || has('set-cookie') || has('set-cookie2') || has('content-range') || has('trailer'))
    return undefined
  if (listOf(headers, 'content-encoding').some((coding) => coding !== 'identity')) return undefined
  if (listOf(headers, 'vary').some((name) => !MAY_VARY.includes(name))) return undefined
  if (
    listOf(headers, 'cache-control').some((word) => NEVER_KEPT.includes(word.split('=', 1)[0]?.trim() ?? ''))
  )
    return undefined
  // An HTML page instead of a file is an error page.
  if (listOf(headers, 'content-type').some((type) => type.startsWith('text/html'))) return undefined
  const [length, ...more] = valuesOf(headers, 'content-length')
  const replayed = REPLAYED.flatMap((name) => single(headers, name))
  if (length === undefined) return isChunked ? { headers: replayed } : undefined
  const bytes = LENGTH.test(length) ? Number(length) : 0
  return more.length > 0 || isChunked || bytes === 0 || bytes > LARGEST_BODY
    ? undefined
    : { headers: replayed, bytes }
}

function single(headers: readonly Header[], name: string): Header[] {
  const [value, ...more] = valuesOf(headers, name.toLowerCase())
  return value === undefined || more.length > 0 || value.length > LONGEST_VALUE ? [] : [[name, value]]
}
