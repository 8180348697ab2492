/**
 * SECURITY: NW-18, NW-21. What two servers could read differently is refused before anything is sent. Node's parser turns away much of it; this does not
 * rely on that, and looks at the list as it was written.
 */
import { type Header, listOf, pairs, valuesOf } from './http-head.ts'
import { type Refusal, refusal } from './refusal.ts'

export interface RawHead {
  readonly httpVersion: string
  readonly rawHeaders: readonly string[]
}

const MOST_HEADERS = 100
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: what is left of them is the point.
const VALUE = /^[\x09\x20-\x7e\x80-\xff]*$/
const LENGTH = /^(?:0|[1-9][0-9]{0,15})$/
const ONCE: readonly string[] = ['authorization', 'content-length', 'content-type', 'expect', 'host']
const FRAMING: readonly string[] = ['content-length', 'host', 'transfer-encoding']
const NOT_IN_TRAILERS =
  /^(?:host|content-.*|transfer-encoding|te|trailer|connection|keep-alive|upgrade|expect|.*auth.*|cookie2?|set-cookie2?|proxy-.*|x-api-key|api-key|x-forwarded-.*|forwarded|range|if-.*|cache-control|max-forwards)$/i

/** Undefined where the head is plain. */
export function checkHead({ httpVersion, rawHeaders }: RawHead): Refusal | undefined {
  const headers = pairs(rawHeaders)
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return malformed('version', 'is of no version known here')
  if (headers.length > MOST_HEADERS) return malformed('headers', `has more than ${MOST_HEADERS} headers`)
  for (const [name, value] of headers) {
    if (!TOKEN.test(name)) return malformed('header', 'has a header whose name is no word')
    if (!VALUE.test(value)) return malformed('header', 'has a header with a control character in it')
    const plain = name.toLowerCase().replaceAll('_', '-')
    // Some servers take an underscore for a hyphen.
    if (name.includes('_') && FRAMING.includes(plain))
      return malformed('header', 'has a header that only looks like one of its frame')
  }
  const twice = ONCE.find((name) => valuesOf(headers, name).length > 1)
  if (twice) return malformed('header', `has more than one ${twice} header`)
  if (valuesOf(headers, 'host').length === 0) return malformed('host', 'has no Host header')
  if (listOf(headers, 'connection').some((name) => FRAMING.includes(name)))
    return malformed('header', 'names a header of its frame in Connection')
  return checkBody(headers, httpVersion)
}

function checkBody(headers: readonly Header[], version: string): Refusal | undefined {
  const [length, codings] = [valuesOf(headers, 'content-length')[0], valuesOf(headers, 'transfer-encoding')]
  if (length !== undefined && !LENGTH.test(length))
    return malformed('length', 'has a Content-Length that is no plain number')
  if (codings.length > 0) {
    if (length !== undefined) return malformed('length', 'has both Content-Length and Transfer-Encoding')
    if (version !== '1.1')
      return malformed('coding', 'has a Transfer-Encoding, which its version does not know')
    if (codings.length > 1 || codings[0]?.toLowerCase() !== 'chunked')
      return malformed('coding', 'has a Transfer-Encoding other than chunked')
  }
  const expect = valuesOf(headers, 'expect')[0]
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    return malformed('expect', 'expects something other than 100-continue')
  return undefined
}

export function isPlainHeader([name, value]: Header): boolean {
  return TOKEN.test(name) && VALUE.test(value)
}

/** SECURITY: NW-18. A trailer never says what a head has to say. */
export function checkTrailers(raw: readonly string[]): Refusal | undefined {
  for (const [name, value] of pairs(raw)) {
    if (!isPlainHeader([name, value])) return malformed('trailer', 'has a malformed trailer')
    if (NOT_IN_TRAILERS.test(name.replaceAll('_', '-')))
      return malformed('trailer', 'has a trailer that belongs in the head')
  }
  return raw.length > 2 * MOST_HEADERS ? malformed('trailer', 'has too many trailers') : undefined
}

export function malformed(what: string, message: string): Refusal {
  return refusal(400, `http.${what}`, `the request ${message}`, 'send it as RFC 9112 says')
}
