/**
 * Request paths and the path patterns of rules. Servers interpret paths differently, so an ambiguous path is
 * allowed only if every reading is allowed, and denied if any reading is denied.
 */
import { invalid } from '../core/error.ts'

const LONGEST_PATH = 4096
const LONGEST_PATTERN = 256
const PRINTABLE = /^[!-~]*$/
const NEVER_RAW = /[\\#?"<>`]/
const SLASHES = /\/|%2F/

type Reading = (text: string) => string
/** How servers rewrite a path before they use it. */
const HABITS: readonly Reading[] = [
  (text) => text.replaceAll('%2F', '/'),
  (text) => text.replace(/;[^/]*/g, ''),
  (text) => text.replace(/\/{2,}/g, '/'),
  (text) => (text.length > 1 && text.endsWith('/') ? text.slice(0, -1) : text),
]
/** Every combination of habits, in their order; the first leaves the path unchanged. */
const READINGS: readonly Reading[] = Array.from({ length: 2 ** HABITS.length }, (_, chosen) => {
  const habits = HABITS.filter((_habit, at) => chosen & (1 << at))
  return (text: string) => habits.reduce((path, habit) => habit(path), text)
})

/**
 * The path without query and unnecessary escapes; undefined if it is ambiguous (a dot segment, a backslash or
 * control character in any spelling, a double escape, overlong UTF-8).
 */
export function normalPath(target: string): string | undefined {
  const [path = ''] = target.split('?', 1)
  if (path.length > LONGEST_PATH || !path.startsWith('/')) return undefined
  const plain = unescapeNeedless(path)
  // A star in a request is literal, not a wildcard.
  return plain === undefined || hasDotSegment(plain) ? undefined : plain.replaceAll('*', '%2A')
}

function unescapeNeedless(text: string): string | undefined {
  if (!PRINTABLE.test(text) || NEVER_RAW.test(text)) return undefined
  if (/%(?![0-9a-f]{2})|%(?:[01].|5c|7f|c[01])/i.test(text)) return undefined
  const plain = text.replace(/%[0-9a-f]{2}/gi, (spelled) => {
    const character = String.fromCharCode(Number.parseInt(spelled.slice(1), 16))
    return /^[!-~]$/.test(character) && !/[/%?#]/.test(character) ? character : spelled.toUpperCase()
  })
  // A server that unescapes twice would see another path.
  return /%25[0-9a-f]{2}/i.test(plain) ? undefined : plain
}

function hasDotSegment(path: string): boolean {
  return path.split(SLASHES).some((segment) => /^\.{1,2}(?:;|$)/.test(segment))
}

/** `*` matches anything within a segment, `**` any number of whole segments. There is no other syntax. */
export function parsePathPattern(text: string): string {
  const fail = (message: string, hint?: string) => invalid('rule.path', message, hint)
  if (!text.startsWith('/')) throw fail('a path pattern begins with /', 'write /** for every path')
  if (text.length > LONGEST_PATTERN) throw fail(`a path pattern has at most ${LONGEST_PATTERN} characters`)
  const plain = /%2a/i.test(text) ? undefined : unescapeNeedless(text)
  if (plain === undefined || hasDotSegment(plain))
    throw fail(
      'a path pattern cannot have a query, space, backslash, dot segment or invalid escape',
      'percent-encode non-ASCII characters; a rule applies to the path before the question mark',
    )
  if (plain.split(SLASHES).some((segment) => segment.includes('**') && segment !== '**'))
    throw fail('`**` must stand alone between slashes', 'write * for a part of a segment')
  return plain
}

/**
 * How specifically the patterns match a path: the number of literal characters of the most specific one;
 * undefined if none matches. SECURITY: the effect decides how an ambiguous path is treated.
 */
export function matchPath(
  patterns: readonly string[],
  path: string,
  effect: 'allow' | 'deny',
): number | undefined {
  const seen = new Set<string>()
  const ranks: (number | undefined)[] = []
  for (const read of READINGS) {
    const reading = read(path)
    // An unchanged path is not another reading; the habit may still change the pattern of a denial.
    if (effect === 'allow' && seen.has(reading)) continue
    seen.add(reading)
    const hits = patterns.filter((pattern) => covers(read(pattern), reading))
    ranks.push(hits.length === 0 ? undefined : Math.max(...hits.map(literalLength)))
  }
  const known = ranks.filter((rank) => rank !== undefined)
  if (known.length === 0 || (effect === 'allow' && known.length < ranks.length)) return undefined
  return effect === 'allow' ? Math.min(...known) : Math.max(...known)
}

function literalLength(pattern: string): number {
  return pattern.replaceAll('*', '').length
}

/**
 * Whether the first pattern allows every path that the second allows. INVARIANT: true is always correct;
 * false may be wrong for patterns with several stars, which only asks the user once too often.
 */
export function coversPattern(outer: string, inner: string): boolean {
  return READINGS.every((read) => covers(read(outer), read(inner)))
}

/** A path is a pattern without stars. A star of the inner pattern must be covered by a star of the outer. */
function covers(outer: string, inner: string): boolean {
  const [pattern, text] = [outer.split('/'), inner.split('/')]
  let [at, star, resume] = [0, -1, 0]
  for (let index = 0; index < text.length; ) {
    const want = pattern[at]
    const have = text[index] ?? ''
    if (want === '**') {
      star = at++
      resume = index
    } else if (want !== undefined && have !== '**' && coversSegment(want, have)) {
      at++
      index++
    } else if (star >= 0) {
      at = star + 1
      index = ++resume
    } else return false
  }
  while (pattern[at] === '**') at++
  return at === pattern.length
}

function coversSegment(outer: string, inner: string): boolean {
  const [first = '', ...rest] = outer.split('*')
  const last = rest.pop()
  if (last === undefined) return inner === first
  const end = inner.length - last.length
  if (!inner.startsWith(first) || !inner.endsWith(last) || end < first.length) return false
  let from = first.length
  for (const piece of rest) {
    const found = inner.indexOf(piece, from)
    if (found < 0 || found + piece.length > end) return false
    from = found + piece.length
  }
  return true
}
