/** Versions and ranges in the words of each ecosystem, brought to one form so that they can be compared. */
import semver from 'semver'
import type { Language } from '../detect/finding.ts'

const LONGEST = 200

/** A version as semver has it: `3.11` is 3.11.0, `17` is 17.0.0. */
export function toVersion(text: string): semver.SemVer | undefined {
  const found = /\d{1,9}(?:\.\d{1,9}){0,2}/.exec(text.slice(0, LONGEST))?.[0]
  return (found && semver.coerce(found)) || undefined
}

/** Newest first. */
export function byVersion(a: string, b: string): number {
  const [left, right] = [toVersion(a), toVersion(b)]
  return left && right ? semver.rcompare(left, right) : 0
}

/** Whether a version is what a wish asks for. A wish that nobody understands is met by nothing. */
export function satisfies(language: Language | 'tool', version: string, wish: string): boolean {
  const range = toRange(language, wish)
  const exact = toVersion(version)
  return (
    range !== undefined && exact !== undefined && semver.satisfies(exact, range, { includePrerelease: false })
  )
}

/** A wish as a semver range. Undefined where it means something else, such as another implementation. */
export function toRange(language: Language | 'tool', wish: string): string | undefined {
  const text = wish.trim().slice(0, LONGEST)
  if (text === '' || text === '*' || /^(?:latest|stable|current|node|any|lts(?:\/\*)?|x)$/i.test(text))
    return '*'
  const range = READERS[language]?.(text) ?? common(text)
  return range !== undefined && semver.validRange(range) !== null ? range : undefined
}

/** Names of Node's long-term lines; they come in the order of the alphabet. */
const NODE_LINES: Readonly<Record<string, number>> = {
  argon: 4,
  boron: 6,
  carbon: 8,
  dubnium: 10,
  erbium: 12,
  fermium: 14,
  gallium: 16,
  hydrogen: 18,
  iron: 20,
  jod: 22,
  krypton: 24,
}

const READERS: Partial<Record<Language | 'tool', (text: string) => string | undefined>> = {
  node(text) {
    const line = /^lts\/([a-z]+)$/i.exec(text)?.[1]?.toLowerCase()
    if (line !== undefined) return Object.hasOwn(NODE_LINES, line) ? `${NODE_LINES[line]}.x` : undefined
    return common(text)
  },
  python: (text) => (/^(?:pypy|miniconda|anaconda|graalpy|jython)/i.test(text) ? undefined : pep440(text)),
  go(text) {
    const bare = text.replace(/^go/, '')
    // A module's line is the least it needs, and Go promises that newer ones do as well.
    return /^\d+\.\d+(?:\.\d+)?$/.test(bare) ? `>=${full(bare)}` : common(bare)
  },
  rust: (text) => (/^(?:nightly|beta)/.test(text) ? undefined : common(text)),
  java: (text) => javaRange(text),
  kotlin: (text) => javaRange(text),
  ruby: (text) => rubyRange(text.replace(/^ruby-/, '')),
  elixir: (text) => rubyRange(text.split('-')[0] ?? text),
  php: (text) => common(text.replaceAll(/\s*\|{1,2}\s*/g, ' || ').replaceAll(',', ' ')),
}

/** npm's ranges, and bare versions, which mean everything that begins so. */
function common(text: string): string | undefined {
  const plain = text.replace(/^[v=]+(?=\d)/, '')
  if (/^\d+(?:\.\d+){0,2}$/.test(plain)) return plain.split('.').length === 3 ? plain : `${plain}.x`
  return semver.validRange(plain) === null ? undefined : plain
}

/** `1.8` is what Java 8 used to call itself; a vendor's name goes before the version. */
function javaRange(text: string): string | undefined {
  const bare = text.replace(/^[a-z-]+(?=\d)/i, '').replace(/^1\.(\d)\b.*$/, '$1')
  const major = /^(\d+)/.exec(bare)?.[1]
  return /^[\d._+a-z-]+$/i.test(bare) && major ? `${major}.x` : common(bare)
}

const PEP440 = /^(===?|~=|!=|<=?|>=?|\^|~)?\s*v?(\d+(?:\.\d+)*)(\.\*)?$/

function pep440(text: string): string | undefined {
  const alternatives = text.split('||').map((one) => {
    const parts = one
      .split(/[,\s]+(?=[<>=!~^\d])/)
      .map((part) => part.trim())
      .filter(Boolean)
    const ranges = parts.map(pep440Part)
    return ranges.includes(undefined) ? undefined : ranges.join(' ').trim() || '*'
  })
  return alternatives.includes(undefined) ? undefined : alternatives.join(' || ')
}

function pep440Part(part: string): string | undefined {
  const [, operator = '', version = '', wildcard] = PEP440.exec(part) ?? []
  if (version === '') return undefined
  const numbers = version.split('.').slice(0, 3)
  switch (operator) {
    case '':
    case '==':
    case '===':
      return numbers.length < 3 || wildcard ? `${numbers.join('.')}.x` : numbers.join('.')
    case '~=':
      return numbers.length < 3 ? `>=${full(version)} <${Number(numbers[0]) + 1}.0.0` : `~${version}`
    case '!=':
      // What is left out is hardly ever what is chosen; the interpreter's own check is the last word.
      return '*'
    case '^':
    case '~':
      return `${operator}${full(version)}`
    default:
      return `${operator}${full(version)}`
  }
}

/** `~> 3.2` is below 4, `~> 3.2.1` below 3.3. */
function rubyRange(text: string): string | undefined {
  const parts = text.split(',').map((part) => part.trim())
  const ranges = parts.map((part) => {
    const pessimistic = /^~>\s*(\d+(?:\.\d+)*)$/.exec(part)?.[1]
    if (pessimistic === undefined) return common(part)
    const numbers = pessimistic.split('.')
    return numbers.length < 3 ? `>=${full(pessimistic)} <${Number(numbers[0]) + 1}.0.0` : `~${pessimistic}`
  })
  return ranges.includes(undefined) ? undefined : ranges.join(' ')
}

function full(version: string): string {
  return [...version.split('.'), '0', '0'].slice(0, 3).join('.')
}
