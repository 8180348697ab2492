/** What becomes of a request that may speak of secrets: placeholders are filled where they belong, and stop it where they do not. */
import type { BoundSecret } from '../core/secret.ts'
import { matchPath, normalPath } from '../policy/path-pattern.ts'
import { Scanner } from '../secrets/scanner.ts'
import { fillSlot } from '../secrets/slot.ts'
import type { Watch } from '../secrets/watch.ts'
import type { Header, RequestHead } from './http-head.ts'
import type { Site } from './http-target.ts'
import { type Refusal, refusal } from './refusal.ts'
import { hostText } from './target.ts'

/** Where a site's own credentials may stand, besides the slots. */
const CREDENTIALS: readonly string[] = [
  'api-key',
  'apikey',
  'authorization',
  'cookie',
  'ocp-apim-subscription-key',
  'private-token',
  'token',
  'x-apikey',
  'x-application-key',
  'x-functions-key',
  'x-key',
  'x-master-key',
  'x-rapidapi-key',
]
/** Most sites name such a header in one of these ways: Private-Token, DD-API-KEY, X-Shopify-Access-Token, X-Auth-Key. */
const CREDENTIAL_NAME = /^x-auth-|-(?:token|api-key|apikey|app-key|application-key|secret|access-key)$/
/** A word for one form or one page of a list says nothing about who asks. */
const NO_CREDENTIAL = /csrf|xsrf|continuation|idempotency|page|sync/
const CREDENTIAL_PARAMETERS = /[?&](?:access_token|api[-_]?key|auth_token|client_secret)=|[?&]key=[^&]{20}/i
/** A part of an answer could hold a part of a value; and what is packed cannot be looked through as it passes. */
const UNASKED: readonly string[] = ['accept-encoding', 'if-range', 'range']
/** Frames are looked into wherever they go, and a packed one cannot be. */
const NEVER_ASKED = 'sec-websocket-extensions'

/** Those whose value may go to the site. SECURITY: over TLS alone, whose certificate is checked. */
export function boundTo(site: Site, secrets: readonly BoundSecret[]): BoundSecret[] {
  const { scheme, target } = site
  if (scheme !== 'https') return []
  const host = hostText(target)
  return secrets.filter(({ slot }) => slot.port === target.port && slot.hosts.includes(host))
}

export interface Filled {
  readonly head: RequestHead
  /** Headers that held somebody else's credential and were taken out. */
  readonly stripped: readonly string[]
  /** Those whose value is in it now. */
  readonly used: readonly BoundSecret[]
}

/** `placeholders` are those of all secrets, in their order. */
export function fillRequest(
  head: RequestHead,
  {
    bound,
    all,
    placeholders,
  }: {
    readonly bound: readonly BoundSecret[]
    readonly all: readonly BoundSecret[]
    readonly placeholders: Watch
  },
): Filled | Refusal {
  const stripped: string[] = []
  const used: BoundSecret[] = []
  const headers: Header[] = []
  const unfilled = [head.method, head.path]
  for (const [name, value] of head.headers) {
    const key = name.toLowerCase()
    const slot = fill(bound, head, key, value)
    if (slot && 'status' in slot) return slot
    if (slot) {
      headers.push([name, slot.filled])
      used.push(slot.secret)
      continue
    }
    unfilled.push(name, value)
    if (bound.length > 0 && isCredential(bound, key)) stripped.push(key)
    else if (key !== NEVER_ASKED && (bound.length === 0 || !UNASKED.includes(key)))
      headers.push([name, value])
  }
  const misplaced = misplacedIn(unfilled, all, placeholders)
  if (misplaced) return misplaced
  // SECURITY: SE-06. On a host that has a credential of the user's, nobody uses another one.
  if (bound.length > 0 && CREDENTIAL_PARAMETERS.test(head.path))
    return refusal(
      403,
      'credential.foreign',
      'a credential stands in the address of the request, and this host has one of its own',
      'leave it out: the way out puts the right one in',
    )
  return { head: { ...head, headers }, stripped, used }
}

/** The value for the header; undefined where the header is nobody's slot or holds something else. */
function fill(
  bound: readonly BoundSecret[],
  head: RequestHead,
  key: string,
  header: string,
): { readonly filled: string; readonly secret: BoundSecret } | Refusal | undefined {
  for (const secret of bound) {
    const { name, slot, placeholder, value } = secret
    if (slot.header !== key) continue
    const filled = fillSlot(header, { scheme: slot.scheme, placeholder, value })
    if (filled === undefined) continue
    if (isInScope(slot, head)) return { filled, secret }
    return refusal(
      403,
      'secret.scope',
      `the secret ${name} is not for this method and path`,
      'ask the user to widen it',
    )
  }
  return undefined
}

function isInScope({ methods, paths }: BoundSecret['slot'], { method, path }: RequestHead): boolean {
  if (methods && !methods.includes(method)) return false
  if (!paths) return true
  const plain = normalPath(path)
  return plain !== undefined && matchPath(paths, plain, 'allow') !== undefined
}

function isCredential(bound: readonly BoundSecret[], key: string): boolean {
  if (CREDENTIALS.includes(key) || bound.some(({ slot }) => slot.header === key)) return true
  return CREDENTIAL_NAME.test(key) && !NO_CREDENTIAL.test(key)
}

/** SECURITY: SE-02, SE-03. A request with a placeholder anywhere but in its slot goes nowhere. All of it is looked through at once. */
export function misplacedIn(
  texts: readonly string[],
  all: readonly BoundSecret[],
  placeholders: Watch,
): Refusal | undefined {
  const scanner = new Scanner(placeholders)
  // No head holds a NUL, so nothing is found across two texts.
  if (!scanner.push(Buffer.from(texts.join('\0'), 'latin1'))) return undefined
  return misplacedOf(scanner.found === undefined ? undefined : all[scanner.found])
}

export function misplacedOf(secret: BoundSecret | undefined): Refusal {
  const { name, slot } = secret ?? {}
  const where = slot ? `in the header ${slot.header} of requests to ${slot.hosts.join(', ')}` : 'in its slot'
  return refusal(
    403,
    'secret.misplaced',
    `the placeholder of ${name ?? 'a secret'} stands where it means nothing; it is worth something ${where} alone`,
    'send it there, or not at all',
  )
}
