/** What becomes of a request that may speak of secrets: placeholders are filled where they belong, and stop it where they do not. */
import type { BoundSecret } from '../core/secret.ts'
import { matchPath, normalPath } from '../policy/path-pattern.ts'
import { mentions } from '../secrets/scanner.ts'
import { fillSlot } from '../secrets/slot.ts'
import type { Header, RequestHead } from './http-head.ts'
import type { Site } from './http-target.ts'
import { type Refusal, refusal } from './refusal.ts'

/** Where a site's own credentials may stand, besides the slots. */
const CREDENTIALS: readonly string[] = [
  'api-key',
  'authorization',
  'cookie',
  'x-access-token',
  'x-amz-security-token',
  'x-api-key',
  'x-auth-token',
  'x-goog-api-key',
]
const CREDENTIAL_PARAMETERS = /[?&](?:access_token|api[-_]?key|auth_token|client_secret)=|[?&]key=[^&]{20}/i
/** A part of an answer could hold a part of a value; and what is packed cannot be looked through as it passes. */
const UNASKED: readonly string[] = ['accept-encoding', 'if-range', 'range', 'sec-websocket-extensions']

/** Those whose value may go to the site. SECURITY: over TLS alone, whose certificate is checked. */
export function boundTo(site: Site, secrets: readonly BoundSecret[]): BoundSecret[] {
  const { scheme, target } = site
  if (scheme !== 'https' || target.kind === 'address') return []
  return secrets.filter(({ slot }) => slot.port === target.port && slot.hosts.includes(target.host))
}

export interface Filled {
  readonly head: RequestHead
  /** Headers that held somebody else's credential and were taken out. */
  readonly stripped: readonly string[]
}

export function fillRequest(
  head: RequestHead,
  bound: readonly BoundSecret[],
  all: readonly BoundSecret[],
): Filled | Refusal {
  const placeholders = all.map(({ placeholder }) => placeholder)
  const stripped: string[] = []
  const headers: Header[] = []
  for (const [name, value] of head.headers) {
    const key = name.toLowerCase()
    const filled = fill(bound, head, key, value)
    if (typeof filled === 'object') return filled
    if (filled !== undefined) headers.push([name, filled])
    else if (mentions(name, placeholders) || mentions(value, placeholders))
      return misplaced(all, `${name}: ${value}`)
    else if (bound.length > 0 && isCredential(bound, key)) stripped.push(key)
    else if (bound.length === 0 || !UNASKED.includes(key)) headers.push([name, value])
  }
  if (mentions(head.path, placeholders) || mentions(head.method, placeholders))
    return misplaced(all, head.path)
  // SECURITY: SE-06. On a host that has a credential of the user's, nobody uses another one.
  if (bound.length > 0 && CREDENTIAL_PARAMETERS.test(head.path))
    return refusal(
      403,
      'credential.foreign',
      'a credential stands in the address of the request, and this host has one of its own',
      'leave it out: the way out puts the right one in',
    )
  return { head: { ...head, headers }, stripped }
}

/** The value for the header; undefined where the header is nobody's slot or holds something else. */
function fill(
  bound: readonly BoundSecret[],
  head: RequestHead,
  key: string,
  header: string,
): string | Refusal | undefined {
  for (const { name, slot, placeholder, value } of bound) {
    if (slot.header !== key) continue
    const filled = fillSlot(header, { scheme: slot.scheme, placeholder, value })
    if (filled === undefined) continue
    if (isInScope(slot, head)) return filled
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
  return CREDENTIALS.includes(key) || bound.some(({ slot }) => slot.header === key)
}

/** SECURITY: SE-02, SE-03. A request with a placeholder anywhere but in its slot goes nowhere. */
export function misplaced(all: readonly BoundSecret[], text: string): Refusal {
  const found = all.find(({ placeholder }) => mentions(text, [placeholder]))
  return misplacedOf(found)
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
