/**
 * Which requests the cache of packages may answer, and which answers it may keep. SECURITY: what a sandbox can choose about a kept answer is its URL and
 * nothing else: the request that is sent for it has headers of ours alone.
 */
import { type Header, listOf, type RequestHead, type ResponseHead, valuesOf } from './http-head.ts'
import type { Handling } from './http-hooks.ts'
import type { Site } from './http-target.ts'
import { LARGEST_BODY } from './package-file.ts'
import { readPackagePath } from './package-path.ts'
import { hostText } from './target.ts'

/** A file that is asked for and may be kept. */
export interface Wanted {
  /** With its scheme and port, so that two that could differ are two. */
  readonly url: string
  /** The hash that its bytes must have, where the URL says it. */
  readonly sha256?: string | undefined
}

/** An answer that may be kept. */
export interface Keepable {
  /** What of its head is said again. */
  readonly headers: readonly Header[]
  /** Absent where it comes in chunks. */
  readonly bytes?: number | undefined
}

/**
 * Headers that clients of registries send and that have no say in which bytes a version has. Any other one, be it a credential, a range, a condition or
 * something that nobody here knows, leaves the request to its server.
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
/** What is sent in their place, beside Host. */
export const PLAIN_QUESTION: readonly Header[] = [
  ['Accept', '*/*'],
  ['Accept-Encoding', 'identity'],
  ['User-Agent', 'AgentPod'],
]
/** A server that answers the plain question so may answer what the client wrote. */
export const WANTS_MORE: readonly number[] = [400, 403, 406]

/** What an answer may depend on: what is always asked in one way, or never. */
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

/** `head` is what the client wrote, `handling` what became of it. The request must have been allowed, and have no body. */
export function wantedOf(o: {
  readonly head: RequestHead
  readonly handling: Handling
  readonly site: Site
}): Wanted | undefined {
  const { head, handling, site } = o
  if (head.method !== 'GET' || head.headers.some(([name]) => !INERT.includes(name.toLowerCase())))
    return undefined
  // SECURITY: a request that something was put into, or whose answer is looked through, belongs to whoever holds the secret.
  if (handling.response || handling.bodyIn || !isSame(head, handling.head)) return undefined
  const file = readPackagePath(head.path)
  if (!file || (site.scheme !== 'https' && file.kind !== 'debian')) return undefined
  return { url: urlOf(site, head.path), ...(file.sha256 !== undefined && { sha256: file.sha256 }) }
}

function isSame(a: RequestHead, b: RequestHead): boolean {
  return (
    a.method === b.method && a.path === b.path && a.headers.flat().join('\n') === b.headers.flat().join('\n')
  )
}

/** INVARIANT: no two sites and paths have one. */
function urlOf({ scheme, target }: Site, path: string): string {
  const host = target.kind === 'name' ? target.host : `[${hostText(target)}]`
  return `${scheme}://${host}:${target.port}${path}`
}

/** Undefined where the answer is for its client alone. The head must be as the server wrote it but for what concerns the connection. */
export function keepableOf(head: ResponseHead, isChunked: boolean): Keepable | undefined {
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
  // A page in place of a file says that something went wrong, and would go on saying it.
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
