/**
 * SECURITY: NW-18, NW-21. A head that two servers could read differently is refused before anything is sent.
 * Node's parser rejects many such heads; these checks do not rely on it and read the raw header list.
 */

import { newRefusal, type Refusal } from '../refusal.ts'
import { type Header, listOf, pairs, valuesOf } from './head.ts'

export interface RawHead {
  readonly httpVersion: string
  readonly rawHeaders: readonly string[]
}

const MOST_HEADERS = 100
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: only the tab is allowed.
const VALUE = /^[\x09\x20-\x7e\x80-\xff]*$/
const LENGTH = /^(?:0|[1-9][0-9]{0,15})$/
const ONCE: readonly string[] = ['authorization', 'content-length', 'content-type', 'expect', 'host']
const FRAMING: readonly string[] = ['content-length', 'host', 'transfer-encoding']
const NOT_IN_TRAILERS =
  /^(?:host|content-.*|transfer-encoding|te|trailer|connection|keep-alive|upgrade|expect|.*auth.*|cookie2?|set-cookie2?|proxy-.*|x-api-key|api-key|x-forwarded-.*|forwarded|range|if-.*|cache-control|max-forwards)$/i

/** Undefined if the head is unambiguous. */
export function checkHead({ httpVersion, rawHeaders }: RawHead): Refusal | undefined {
  const headers = pairs(rawHeaders)
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return malformedRequest('version', 'uses an unsupported HTTP version')
  if (headers.length > MOST_HEADERS)
    return malformedRequest('headers', `has more than ${MOST_HEADERS} headers`)
  const times = new Map<string, number>()
  for (const [name, value] of headers) {
    if (!TOKEN.test(name)) return malformedRequest('header', 'has a header with an invalid name')
    if (!VALUE.test(value)) return malformedRequest('header', 'has a header with a control character in it')
    const lower = name.toLowerCase()
    times.set(lower, (times.get(lower) ?? 0) + 1)
    // Some servers read an underscore as a hyphen.
    if (lower.includes('_') && FRAMING.includes(lower.replaceAll('_', '-')))
      return malformedRequest(
        'header',
        'has a header that some servers read as Content-Length, Host or Transfer-Encoding',
      )
  }
  const twice = ONCE.find((name) => (times.get(name) ?? 0) > 1)
  if (twice) return malformedRequest('header', `has more than one ${twice} header`)
  if (!times.has('host')) return malformedRequest('host', 'has no Host header')
  if (listOf(headers, 'connection').some((name) => FRAMING.includes(name)))
    return malformedRequest(
      'header',
      'names Content-Length, Host or Transfer-Encoding in its Connection header',
    )
  return checkBody(headers, httpVersion)
}

function checkBody(headers: readonly Header[], version: string): Refusal | undefined {
  const [length, codings] = [valuesOf(headers, 'content-length')[0], valuesOf(headers, 'transfer-encoding')]
  if (length !== undefined && !LENGTH.test(length))
    return malformedRequest('length', 'has a Content-Length that is not a plain number')
  if (codings.length > 0) {
    if (length !== undefined)
      return malformedRequest('length', 'has both Content-Length and Transfer-Encoding')
    if (version !== '1.1')
      return malformedRequest('coding', 'has a Transfer-Encoding, which HTTP/1.0 does not support')
    if (codings.length > 1 || codings[0]?.toLowerCase() !== 'chunked')
      return malformedRequest('coding', 'has a Transfer-Encoding other than chunked')
  }
  const expect = valuesOf(headers, 'expect')[0]
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    return malformedRequest('expect', 'expects something other than 100-continue')
  return undefined
}

export function isPlainHeader([name, value]: Header): boolean {
  return TOKEN.test(name) && VALUE.test(value)
}

/** SECURITY: NW-18. Fields that belong in the head are refused as trailers. */
export function checkTrailers(raw: readonly string[]): Refusal | undefined {
  for (const [name, value] of pairs(raw)) {
    if (!isPlainHeader([name, value])) return malformedRequest('trailer', 'has a malformed trailer')
    if (NOT_IN_TRAILERS.test(name.replaceAll('_', '-')))
      return malformedRequest('trailer', 'has a trailer that is only allowed as a header')
  }
  return raw.length > 2 * MOST_HEADERS ? malformedRequest('trailer', 'has too many trailers') : undefined
}

export function malformedRequest(what: string, message: string): Refusal {
  return newRefusal(400, `http.${what}`, `the request ${message}`, 'send a request that follows RFC 9112')
}
