/** One grant or denial of network access, written by a user, a project or a preset, in its parsed form. */
import { createHash } from 'node:crypto'
import * as z from 'zod'
import { invalid } from '../core/error.ts'
import type { Budget, NetworkRule, RuleSource } from '../core/network.ts'
import { toPrintableAscii } from '../util/hidden-characters.ts'
import { nearest } from '../util/nearest.ts'
import { type HostName, hostRefused, readHostName } from './host-name.ts'
import { parsePathPattern } from './path-pattern.ts'
import { readPort } from './port.ts'
import { isNeverReachable, isPublicName } from './special-name.ts'

/** `*.example.com` matches every name below example.com, at any depth, but not example.com itself. */
export type HostPattern = HostName | `*.${HostName}`

export interface Rule {
  readonly host: HostPattern
  /** Ascending. Only a denial can be for any port. */
  readonly ports: readonly number[] | 'any'
  /** Sorted; absent means every method. */
  readonly methods?: readonly string[] | undefined
  /** Sorted; absent means every path. */
  readonly paths?: readonly string[] | undefined
  /** Whether the name may resolve to a private address. */
  readonly isPrivate: boolean
  readonly budget?: Budget | undefined
  readonly source: RuleSource
  /**
   * The user's grant that a project narrowed. All rules from one grant share its budget, so usage counts
   * there too.
   */
  readonly within?: Rule | undefined
}

export const DEFAULT_PORTS: readonly number[] = [80, 443]
const METHOD = /^[A-Z][A-Z-]{0,30}$/
/** TRACE returns the request, including secrets; CONNECT is a tunnel and is decided by port. */
const REFUSED_METHODS: readonly string[] = ['TRACE', 'TRACK', 'CONNECT']

export function isSendableMethod(method: string): boolean {
  return METHOD.test(method) && !REFUSED_METHODS.includes(method)
}

const budgetInput = z.strictObject({
  bytes: z.int().min(1).optional(),
  requestsPerMinute: z.int().min(1).optional(),
})
export const ruleInput = z.strictObject({
  host: z.string(),
  ports: z.array(z.int().min(1).max(65_535)).min(1).max(64).optional(),
  methods: z.array(z.string()).min(1).max(16).optional(),
  paths: z.array(z.string()).min(1).max(16).optional(),
  private: z.boolean().optional(),
  budget: budgetInput.optional(),
})
export type RuleInput = z.infer<typeof ruleInput>

/**
 * `example.com`, `*.example.com:8443`, `example.com:80,443/api/**`, or an object with the keys of
 * `ruleInput`.
 */
export function parseRule(input: unknown, source: RuleSource): Rule {
  const asked = typeof input === 'string' ? fromText(input) : checked(input)
  const host = parseHostPattern(asked.host)
  const name = (host.startsWith('*.') ? host.slice(2) : host) as HostName
  if (isNeverReachable(name))
    throw invalid(
      'rule.never',
      `no rule can allow ${host}: it is the host machine or a cloud metadata service`,
    )
  const isPrivate = asked.private ?? false
  if (!isPublicName(name) && !isPrivate)
    throw invalid(
      'rule.private',
      `${host} is not a public host name`,
      'write the full name, or set private = true for a server in your own network',
    )
  return toRule(asked, { host, ports: ascending(asked.ports ?? DEFAULT_PORTS), isPrivate, source })
}

/** A denial without ports applies to all ports. */
export function parseDenial(input: unknown, source: RuleSource): Rule {
  const asked = typeof input === 'string' ? fromText(input) : checked(input)
  if (asked.private !== undefined || asked.budget !== undefined)
    throw invalid('rule.denial', 'a denial cannot have private or budget', 'leave them out')
  const ports = asked.ports ? ascending(asked.ports) : 'any'
  return toRule(asked, { host: parseHostPattern(asked.host), ports, isPrivate: false, source })
}

function toRule(
  asked: RuleInput,
  { host, ports, isPrivate, source }: Pick<Rule, 'host' | 'ports' | 'isPrivate' | 'source'>,
): Rule {
  const methods = asked.methods && sorted(asked.methods.map(parseMethod))
  const paths = asked.paths && sorted(asked.paths.map(parsePathPattern))
  return {
    host,
    ports,
    ...(methods && { methods }),
    ...(paths && { paths }),
    isPrivate,
    ...(asked.budget && { budget: asked.budget }),
    source,
  }
}

function fromText(text: string): RuleInput {
  if (text.includes('://'))
    throw invalid('rule.url', 'a rule names a host, not a URL', 'leave out the part up to ://')
  // IPv6 contains colons; the parser of host names reports the error.
  if (/^\[|^[^/]*:[^/]*:/.test(text)) return { host: text }
  const match = /^([^/:]*)(?::([^/]*))?(\/.*)?$/s.exec(text)
  if (!match) throw invalid('rule.malformed', 'a rule is written host, host:port or host:port/path')
  const [, host = '', ports, path] = match
  return {
    host,
    ...(ports !== undefined && { ports: ports.split(',').map(toPort) }),
    ...(path !== undefined && { paths: [path] }),
  }
}

function toPort(text: string): number {
  const port = readPort(text)
  if (port !== undefined) return port
  throw invalid(
    'rule.port',
    'a port of a rule is a whole number from 1 to 65535',
    'for example example.com:8443',
  )
}

function checked(input: unknown): RuleInput {
  const result = ruleInput.safeParse(input)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const at = issue?.path.join('.') ?? ''
  if (issue?.code === 'unrecognized_keys') {
    // The key may come from a project file and is shown on a terminal.
    const key = toPrintableAscii(issue.keys[0] ?? '').slice(0, 40)
    const known = Object.keys((at === 'budget' ? budgetInput : ruleInput).shape)
    const near = nearest(key, known)
    throw invalid(
      'rule.unknown_key',
      `a rule has no key ${JSON.stringify(at ? `${at}.${key}` : key)}`,
      near ? `did you mean ${near}?` : `it has ${known.join(', ')}`,
    )
  }
  throw invalid('rule.malformed', `${at ? `${at} of a rule` : 'a rule'}: ${issue?.message ?? 'is malformed'}`)
}

function parseHostPattern(text: string): HostPattern {
  const isWildcard = text.startsWith('*.')
  const name = isWildcard ? text.slice(2) : text
  if (name.includes('*'))
    throw invalid('rule.host', 'a * is only allowed as the first label', 'write *.example.com')
  if (name.startsWith('.') && !isWildcard)
    throw invalid(
      'rule.host',
      'a host name does not begin with a dot',
      'write *.example.com for the names below it',
    )
  const reading = readHostName(name)
  if (!reading.ok) {
    const { message, hint } = hostRefused(reading.refusal)
    throw invalid('rule.host', message, hint)
  }
  // SECURITY: NW-12. A wildcard below a top-level domain would match every registered name.
  if (isWildcard && !reading.host.includes('.'))
    throw invalid('rule.host', `*.${reading.host} is too wide`, 'name a domain below it, like *.example.com')
  return isWildcard ? `*.${reading.host}` : reading.host
}

function parseMethod(method: string): string {
  if (isSendableMethod(method)) return method
  const upper = method.toUpperCase()
  throw invalid(
    'rule.method',
    'a method is written in capital letters, and cannot be TRACE or CONNECT',
    isSendableMethod(upper) ? `write ${upper}` : undefined,
  )
}

function sorted(words: readonly string[]): string[] {
  return [...new Set(words)].sort()
}

function ascending(ports: readonly number[]): number[] {
  return [...new Set(ports)].sort((a, b) => a - b)
}

/** SECURITY: NW-12. Matches whole labels only. Both sides are in normal form. */
export function matchesHost(pattern: HostPattern, host: HostName): boolean {
  return pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern
}

export function matchesPort(ports: Rule['ports'], port: number): boolean {
  return ports === 'any' || ports.includes(port)
}

/** The rule as plain data, as in API requests and stored records. */
export function writeRule(rule: Rule): NetworkRule {
  const { ports, isPrivate, host, methods, paths, budget, source, within } = rule
  return {
    host,
    ...(ports !== 'any' && { ports }),
    ...(methods && { methods }),
    ...(paths && { paths }),
    ...(isPrivate && { private: true }),
    ...(budget && { budget }),
    source,
    ...(within && { within: writeRule(within) }),
  }
}

/** The inverse of `writeRule`, with the same checks as for user input. */
export function readRule({ source, within, ...rule }: NetworkRule): Rule {
  const read = parseRule(present(rule), source)
  return within ? { ...read, within: readRule(within) } : read
}

export function readDenial({ source, within: _, ...rule }: NetworkRule): Rule {
  return parseDenial(present(rule), source)
}

function present(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** One line of text with everything but the source. */
export function describeRule(rule: Rule): string {
  const { ports, methods, paths, isPrivate, budget } = rule
  const parts = [
    `${rule.host} on ${ports === 'any' ? 'any port' : `port ${ports.join(', ')}`}`,
    methods && `methods ${methods.join(', ')}`,
    paths && `paths ${paths.join(', ')}`,
    isPrivate && 'private addresses too',
    budget?.bytes !== undefined && `at most ${budget.bytes} bytes`,
    budget?.requestsPerMinute !== undefined && `at most ${budget.requestsPerMinute} requests a minute`,
  ]
  return parts.filter((part) => typeof part === 'string').join('; ')
}

/**
 * The hash of the meaning of rules, independent of their order and source, and stable across machines and
 * versions.
 */
export function hashRules(rules: readonly Rule[]): string {
  const texts = rules.map((rule) =>
    JSON.stringify([
      rule.host,
      rule.ports,
      rule.methods ?? null,
      rule.paths ?? null,
      rule.isPrivate,
      rule.budget?.bytes ?? null,
      rule.budget?.requestsPerMinute ?? null,
    ]),
  )
  return createHash('sha256')
    .update(`agentpod.rules.1\n${sorted(texts).join('\n')}`)
    .digest('hex')
}
