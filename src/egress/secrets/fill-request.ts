/**
 * Replaces placeholders by values in their slots, and refuses a request that has a placeholder anywhere else.
 */
import type { BoundSecret } from '../../core/secret.ts'
import { matchPath, normalPath } from '../../policy/path-pattern.ts'
import { Scanner } from '../../secrets/scanner.ts'
import type { SearchSet } from '../../secrets/search-set.ts'
import { fillSlot } from '../../secrets/slot.ts'
import { hostText } from '../destination.ts'
import type { Header, RequestHead } from '../http/head.ts'
import type { Site } from '../http/request-target.ts'
import { newRefusal, type Refusal } from '../refusal.ts'

/** Headers that carry credentials, in addition to the slots of secrets. */
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
/** Common names of credential headers: Private-Token, DD-API-KEY, X-Shopify-Access-Token, X-Auth-Key. */
const CREDENTIAL_NAME = /^x-auth-|-(?:token|api-key|apikey|app-key|application-key|secret|access-key)$/
/** Tokens for one form or one page of a list do not identify a user. */
const NO_CREDENTIAL = /csrf|xsrf|continuation|idempotency|page|sync/
const CREDENTIAL_PARAMETERS = /[?&](?:access_token|api[-_]?key|auth_token|client_secret)=|[?&]key=[^&]{20}/i
/** A range could return part of a value, which would not be masked; a compressed response is avoided. */
const UNASKED: readonly string[] = ['accept-encoding', 'if-range', 'range']
/** WebSocket frames are searched for placeholders, and an extension could compress them. */
const NEVER_ASKED = 'sec-websocket-extensions'

/** The secrets whose values may be sent to the site. SECURITY: only over TLS with a verified certificate. */
export function boundTo(site: Site, secrets: readonly BoundSecret[]): BoundSecret[] {
  const { scheme, destination } = site
  if (scheme !== 'https') return []
  const host = hostText(destination)
  return secrets.filter(({ slot }) => slot.port === destination.port && slot.hosts.includes(host))
}

export interface Filled {
  readonly head: RequestHead
  /** Headers that were removed because they held another credential. */
  readonly stripped: readonly string[]
  /** The secrets whose values were filled in. */
  readonly used: readonly BoundSecret[]
}

/** `placeholders` holds the placeholders of `all`, in the same order. */
export function fillRequest(
  head: RequestHead,
  {
    bound,
    all,
    placeholders,
  }: {
    readonly bound: readonly BoundSecret[]
    readonly all: readonly BoundSecret[]
    readonly placeholders: SearchSet
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
  const misplaced = findMisplaced(unfilled, all, placeholders)
  if (misplaced) return misplaced
  // SECURITY: SE-06. On a host that has a secret of the user, no other credential is sent.
  if (bound.length > 0 && CREDENTIAL_PARAMETERS.test(head.path))
    return newRefusal(
      403,
      'credential.foreign',
      'the URL contains a credential, but this host has a secret of its own',
      'leave it out: AgentPod adds the right credential',
    )
  return { head: { ...head, headers }, stripped, used }
}

/** The filled header; undefined if the header is not a slot or does not hold the placeholder. */
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
    return newRefusal(
      403,
      'secret.scope',
      `the secret ${name} is not allowed for this method and path`,
      'ask the user to extend it',
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

/**
 * SECURITY: SE-02, SE-03. A request with a placeholder outside its slot is refused. Searches all texts in one
 * pass.
 */
export function findMisplaced(
  texts: readonly string[],
  all: readonly BoundSecret[],
  placeholders: SearchSet,
): Refusal | undefined {
  const scanner = new Scanner(placeholders)
  // A head contains no NUL, so no match spans two texts.
  if (!scanner.push(Buffer.from(texts.join('\0'), 'latin1'))) return undefined
  return misplacedRefusal(scanner.found === undefined ? undefined : all[scanner.found])
}

export function misplacedRefusal(secret: BoundSecret | undefined): Refusal {
  const { name, slot } = secret ?? {}
  const where = slot ? `in the header ${slot.header} of requests to ${slot.hosts.join(', ')}` : 'in its slot'
  return newRefusal(
    403,
    'secret.misplaced',
    `the placeholder of ${name ?? 'a secret'} is in the wrong place; it only works ${where}`,
    'send it there, or leave it out',
  )
}
