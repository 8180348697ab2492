/** Reads the versions and ranges of each ecosystem into one form, so that they can be compared. */
import semver from 'semver'
import type { Language } from '../../detect/finding.ts'

/** Longer text is ignored: cut off, a range could allow what it forbids. */
const LONGEST = 200

type Kind = Language | 'tool'

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

/** Whether a version meets a wish. Nothing meets a wish that is not a version or range. */
export function satisfies(language: Kind, version: string, wish: string): boolean {
  const range = toRange(language, wish)
  const exact = toVersion(version)
  return (
    range !== undefined && exact !== undefined && semver.satisfies(exact, range, { includePrerelease: false })
  )
}

/**
 * Whether some version of a line may meet a wish. Debian names lines: `3.11` may be 3.11.2, `17` may be
 * 17.0.9.
 */
export function mayMatch(language: Kind, line: string, wish: string): boolean {
  const range = toRange(language, wish)
  const all = common(line)
  return range !== undefined && all !== undefined && semver.intersects(range, all)
}

/** Whether some version could meet both. */
export function overlaps(language: Kind, one: string, other: string): boolean {
  const [left, right] = [toRange(language, one), toRange(language, other)]
  return left !== undefined && right !== undefined && semver.intersects(left, right)
}

/** Whether a wish allows versions that differ in more than the patch. */
export function isRange(wish: string): boolean {
  return !/^(?:v|go|python-|ruby-|==?)?\d+(?:\.\d+){0,2}$/i.test(wish.trim())
}

/** Whether a wish asks for the newest version, not just for any. */
export function isLatest(wish: string): boolean {
  return /^(?:latest|current|node)$/i.test(wish.trim())
}

/** A wish as a semver range. Undefined if it means something else, such as another implementation. */
export function toRange(language: Kind, wish: string): string | undefined {
  const text = wish.trim()
  if (text.length > LONGEST) return undefined
  if (text === '' || /^(?:\*|latest|stable|current|node|any|lts|x)$/i.test(text))
    return anything(language, text)
  const range = (READERS[language] ?? common)(text)
  return range !== undefined && semver.validRange(range) !== null ? range : undefined
}

function anything(language: Kind, text: string): string {
  return language === 'node' && /^lts$/i.test(text) ? ANY_LINE : '*'
}

/** Names of Node's long-term support lines, in alphabetical order. */
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
const ANY_LINE = Object.values(NODE_LINES)
  .map((major) => `${major}.x`)
  .join(' || ')

const READERS: Partial<Record<Kind, (text: string) => string | undefined>> = {
  node(text) {
    const line = /^lts[/-]([a-z]+|\*)$/i.exec(text)?.[1]?.toLowerCase()
    if (line === undefined) return common(text)
    if (line === '*') return ANY_LINE
    return Object.hasOwn(NODE_LINES, line) ? `${NODE_LINES[line]}.x` : undefined
  },
  python: (text) =>
    /^(?:pypy|miniconda|anaconda|graalpy|jython)/i.test(text)
      ? undefined
      : pep440(text.replace(/^python-(?=\d)/i, '')),
  go: (text) => common(text.replace(/^go(?=\d)/, '').replace(/(?<=\d)(?:rc|beta)\d+$/, '')),
  rust(text) {
    if (/^(?:nightly|beta)/i.test(text)) return undefined
    // A toolchain name may include the target machine.
    const [channel = ''] = /^(?:stable|\d+(?:\.\d+){1,2})(?=-[a-z0-9_]+-)/i.exec(text) ?? []
    return channel.toLowerCase() === 'stable' ? '*' : common(channel || text)
  },
  java: (text) => javaRange(text),
  kotlin: (text) => javaRange(text),
  ruby: (text) => rubyRange(text.replace(/^ruby-(?=\d)/i, '').replace(/^(\d+\.\d+\.\d+)-?p\d+$/, '$1')),
  elixir: (text) => elixirRange(text),
  php: (text) => composerRange(text),
}

/** npm's ranges, and bare versions, which mean every version that starts with them. */
function common(text: string): string | undefined {
  const plain = text.replace(/^[v=]+\s*(?=\d)/, '')
  if (/^\d+(?:\.\d+){0,2}$/.test(plain)) return plain.split('.').length === 3 ? plain : `${plain}.x`
  return semver.validRange(plain) === null ? undefined : plain
}

/** Java 8 called itself `1.8`; a vendor's name may precede the version. */
function javaRange(text: string): string | undefined {
  const bare = text
    .replace(/^(?:[a-z][a-z_]*\d{0,2}-)+(?=[a-z]*\d)/i, '')
    .replace(/^[a-z]+(?=\d)/i, '')
    .replace(/^1\.(\d)\b.*$/, '$1')
  const major = /^(\d+)/.exec(bare)?.[1]
  return /^[\d._+a-z-]+$/i.test(bare) && major ? `${major}.x` : common(bare)
}

/** Separates two bounds, but not an operator and its version. */
const APART = /,|(?<=[\d*x])\s+(?=[<>=!~^\d])/

/** Suffixes after the numbers, such as `rc1` or `.dev0`, are ignored. */
const PEP440 =
  /^(===?|~=|!=|<=?|>=?|\^|~)?\s*v?(\d+(?:\.\d+)*)(?:(\.\*)|[-.]?(?:a|b|rc|alpha|beta|dev|post)[-.]?\d*)?$/

function pep440(text: string): string | undefined {
  return alternatives(text, /\|{1,2}/, (one) => one.split(APART), pep440Part)
}

function pep440Part(part: string): string | undefined {
  const [, operator = '', version = '', wildcard] = PEP440.exec(part) ?? []
  if (version === '') return common(part)
  const numbers = version.split('.').slice(0, 3)
  const plain = numbers.join('.')
  switch (operator) {
    case '':
    case '==':
    case '===':
      return numbers.length < 3 || wildcard ? `${plain}.x` : plain
    case '~=':
      return numbers.length < 3 ? belowNextMajor(plain) : `~${plain}`
    case '!=':
      // An excluded version is hardly ever the chosen one; the interpreter checks it anyway.
      return '*'
    case '~':
      return `~${plain}`
    default:
      return `${operator}${full(plain)}`
  }
}

/** `~> 3.2` is below 4, `~> 3.2.1` below 3.3. */
function rubyRange(text: string): string | undefined {
  return alternatives(text, undefined, (one) => one.split(','), pessimistic)
}

/** Like Ruby's, with `and` and `or`, and with an OTP suffix after the version. */
function elixirRange(text: string): string | undefined {
  return alternatives(
    text.replace(/-otp-\d+$/, ''),
    /\s+or\s+/,
    (one) => one.split(/,|\s+and\s+/),
    pessimistic,
  )
}

function pessimistic(part: string): string | undefined {
  if (part.startsWith('!=')) return '*'
  const version = /^~>\s*(\d+(?:\.\d+)*)$/.exec(part)?.[1]
  if (version === undefined) return common(part)
  const numbers = version.split('.').slice(0, 3)
  return numbers.length < 3 ? belowNextMajor(version) : `~${numbers.join('.')}`
}

/** Its tilde works as in Ruby, the rest as in npm. */
function composerRange(text: string): string | undefined {
  return alternatives(
    text.replaceAll(/@(?:stable|dev|RC|beta|alpha)\b/g, ''),
    /\|{1,2}/,
    (one) => (/\s-\s/.test(one) ? [one] : one.split(APART)),
    (part) => {
      if (part.startsWith('!=')) return '*'
      const tilde = /^~\s*v?(\d+\.\d+)$/.exec(part)?.[1]
      return tilde === undefined ? common(part) : belowNextMajor(tilde)
    },
  )
}

/** Alternative ranges, each made of parts that must all hold. */
function alternatives(
  text: string,
  between: RegExp | undefined,
  partsOf: (one: string) => readonly string[],
  read: (part: string) => string | undefined,
): string | undefined {
  const all = (between === undefined ? [text] : text.split(between)).map((one) => {
    const ranges = partsOf(one)
      .map((part) => part.trim())
      .filter(Boolean)
      .map(read)
    return ranges.length === 0 || ranges.includes(undefined) ? undefined : ranges.join(' ')
  })
  return all.includes(undefined) ? undefined : all.join(' || ')
}

function belowNextMajor(version: string): string {
  return `>=${full(version)} <${Number(version.split('.')[0]) + 1}.0.0`
}

function full(version: string): string {
  return [...version.split('.'), '0', '0'].slice(0, 3).join('.')
}
