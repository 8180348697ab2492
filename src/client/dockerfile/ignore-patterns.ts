/** The patterns of a .dockerignore file, with the rules of Docker's own matcher: the last match decides. */
import { invalid } from '../../core/error.ts'

interface IgnorePattern {
  readonly isNegated: boolean
  readonly expression: RegExp
}

export interface IgnorePatterns {
  /** Whether a path, relative to the context, is left out. */
  isIgnored(path: string): boolean
  /** Whether a pattern can bring back what an ignored directory contains. */
  readonly hasNegated: boolean
}

const LARGEST_BYTES = 256 * 1024
const MOST_PATTERNS = 2000

export function parseIgnorePatterns(text: string, name: string): IgnorePatterns {
  if (text.length > LARGEST_BYTES)
    throw invalid('dockerignore.size', `${name} is larger than ${LARGEST_BYTES} bytes`)
  const patterns = text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .flatMap((line, at) => parseLine(line, `${name}:${at + 1}`))
  if (patterns.length > MOST_PATTERNS)
    throw invalid('dockerignore.size', `${name} has more than ${MOST_PATTERNS} patterns`)
  return {
    hasNegated: patterns.some(({ isNegated }) => isNegated),
    isIgnored(path) {
      const parts = path.split('/')
      const places = parts.map((_, at) => parts.slice(0, at + 1).join('/'))
      let isIgnored = false
      for (const { isNegated, expression } of patterns) {
        // Only a pattern of the other kind changes anything.
        if (isNegated !== isIgnored) continue
        if (places.some((place) => expression.test(place))) isIgnored = !isNegated
      }
      return isIgnored
    },
  }
}

function parseLine(line: string, place: string): IgnorePattern[] {
  if (line.startsWith('#')) return []
  const trimmed = line.trim()
  if (trimmed === '') return []
  const isNegated = trimmed.startsWith('!')
  const body = cleaned((isNegated ? trimmed.slice(1) : trimmed).trim())
  if (isNegated && body === '') throw invalid('dockerignore.pattern', `${place}: "!" alone excludes nothing`)
  if (body === '' || body === '.') return body === '.' ? [{ isNegated, expression: /^/ }] : []
  return [{ isNegated, expression: expressionOf(body, place) }]
}

/** Without `.`, `..` and double slashes, and without a slash at either end. */
function cleaned(pattern: string): string {
  const parts: string[] = []
  for (const part of pattern.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.length === 0 && pattern !== '' ? '.' : parts.join('/')
}

function expressionOf(pattern: string, place: string): RegExp {
  let source = '^'
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern.charAt(at)
    if (char === '*' && pattern.charAt(at + 1) === '*') {
      at += 1
      if (pattern.charAt(at + 1) === '/') at += 1
      source += at + 1 >= pattern.length ? '.*' : '(?:.*/)?'
    } else if (char === '*') source += '[^/]*'
    else if (char === '?') source += '[^/]'
    else if (char === '[') {
      const end = pattern.indexOf(']', at + 2)
      if (end < 0) throw invalid('dockerignore.pattern', `${place}: "[" has no "]"`)
      const inner = pattern.slice(at + 1, end)
      source += `[${inner.replaceAll('\\', '\\\\').replaceAll('[', '\\[')}]`
      at = end
    } else if (char === '\\') {
      at += 1
      if (at >= pattern.length) throw invalid('dockerignore.pattern', `${place}: "\\" escapes nothing`)
      source += escaped(pattern.charAt(at))
    } else source += escaped(char)
  }
  try {
    return new RegExp(`${source}$`, 's')
  } catch {
    throw invalid('dockerignore.pattern', `${place}: the pattern is malformed`)
  }
}

function escaped(char: string): string {
  return char.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}
