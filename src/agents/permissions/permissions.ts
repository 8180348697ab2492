/** Decides by permission rules about an action of an agent. */
import { posix } from 'node:path'
import { invalid } from '../../core/error.ts'
import {
  ALLOW_ALL,
  DECISIONS,
  PERMISSION_KINDS,
  type PermissionDecision,
  type PermissionKind,
  type PermissionRule,
  type PermissionRules,
} from '../../core/permission.ts'
import type { PermissionAbout } from '../../core/run.ts'
import { nearest } from '../../util/nearest.ts'
import { commandParts } from './command-parts.ts'

const LONGEST_PATTERN = 256

export function decidePermission(
  rules: PermissionRules,
  about: Pick<PermissionAbout, 'kind' | 'subject'>,
): PermissionDecision {
  const { kind, subject } = about
  if (kind === 'bash') return decideCommand(rules.bash, subject)
  if (kind === 'network') return longest(rules.network, fitsPlace(subject.toLowerCase()))
  if (kind === 'mcp') return longest(rules.mcp, ({ pattern }) => matches(pattern, subject))
  // A question may be about several files: each has to be allowed.
  const decisions = subject
    .split('\n')
    .map((path) => longest(rules.write, ({ pattern }) => matches(pattern, posix.normalize(path))))
  return strictest(decisions)
}

function longest(
  rules: readonly PermissionRule[],
  isFit: (rule: PermissionRule) => boolean,
): PermissionDecision {
  const fitting = rules.filter(isFit)
  const length = Math.max(...fitting.map(({ pattern }) => pattern.length))
  return strictest(fitting.filter(({ pattern }) => pattern.length === length).map(({ decision }) => decision))
}

function strictest(decisions: readonly PermissionDecision[]): PermissionDecision {
  return DECISIONS.find((decision) => decisions.includes(decision)) ?? 'allow'
}

/**
 * SECURITY: an allowing rule must match the whole command; a denying rule also matches a part of a longer
 * command. Each part is decided separately, and the strictest decision holds.
 */
function decideCommand(rules: readonly PermissionRule[], command: string): PermissionDecision {
  const allowing = rules.filter(
    ({ pattern, decision }) => decision === 'allow' && matches(pattern, command, isPlain),
  )
  const strict = rules.filter(({ decision }) => decision !== 'allow')
  const parts = [command, ...commandParts(command)]
  return strictest(
    parts.map((part) =>
      longest([...allowing, ...strict], (rule) => rule.decision === 'allow' || matches(rule.pattern, part)),
    ),
  )
}

/** A pattern without a port matches every port. */
function fitsPlace(place: string): (rule: PermissionRule) => boolean {
  const host = place.replace(/:\d+$/, '')
  return ({ pattern }) => matches(pattern.toLowerCase(), place) || matches(pattern.toLowerCase(), host)
}

/**
 * Whether the text has no character with a meaning to a shell; otherwise `*` could match more than arguments
 * of one command.
 */
function isPlain(text: string): boolean {
  return !/[;|&$`<>()\r\n]/.test(text)
}

/**
 * `*` matches any text that `may` accepts. Each part of the pattern is searched once, after the previous
 * part, so that the time is linear. The first occurrence is enough: a later one only leaves more text to the
 * `*` before it.
 */
function matches(pattern: string, subject: string, may: (text: string) => boolean = () => true): boolean {
  const [first = '', ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return subject === pattern
  if (!subject.startsWith(first)) return false
  let from = first.length
  for (const part of others) {
    const found = subject.indexOf(part, from)
    if (found < 0 || !may(subject.slice(from, found))) return false
    from = found + part.length
  }
  const end = subject.length - last.length
  return end >= from && subject.endsWith(last) && may(subject.slice(from, end))
}

export interface NamedRule extends PermissionRule {
  readonly kind: PermissionKind
}

/** `bash:git push*=deny`, or `bash=ask` for all of a kind. */
export function parsePermission(text: string): NamedRule {
  const sign = text.lastIndexOf('=')
  const decision = text.slice(sign + 1).trim()
  if (sign < 0 || !isDecision(decision)) {
    const meant = sign < 0 ? undefined : nearest(decision, DECISIONS)
    throw invalid(
      'permission.decision',
      `${JSON.stringify(text)} does not end in =allow, =ask or =deny`,
      meant ? `did you mean =${meant}?` : 'for example `bash:git push*=deny`',
    )
  }
  const [word = '', ...rest] = text.slice(0, sign).split(':')
  const kind = word.trim()
  if (!isKind(kind)) {
    const meant = nearest(kind, PERMISSION_KINDS)
    throw invalid(
      'permission.kind',
      `there is no permission ${JSON.stringify(kind)}`,
      meant ? `did you mean ${meant}?` : `there are ${PERMISSION_KINDS.join(', ')}`,
    )
  }
  const pattern = rest.length === 0 ? '*' : rest.join(':').trim()
  if (pattern === '' || pattern.length > LONGEST_PATTERN || /\p{Cc}/u.test(pattern))
    throw invalid(
      'permission.pattern',
      `the pattern of ${JSON.stringify(text)} is empty, too long or not printable`,
    )
  return { kind, pattern, decision }
}

function isDecision(word: string): word is PermissionDecision {
  return (DECISIONS as readonly string[]).includes(word)
}

function isKind(word: string): word is PermissionKind {
  return (PERMISSION_KINDS as readonly string[]).includes(word)
}

/** Adds rules; a rule with the same pattern replaces the older one. */
export function withPermissions(
  rules: readonly NamedRule[],
  before: PermissionRules = ALLOW_ALL,
): PermissionRules {
  const result: Record<PermissionKind, readonly PermissionRule[]> = { ...before }
  for (const { kind, pattern, decision } of rules)
    result[kind] = [...result[kind].filter((one) => one.pattern !== pattern), { pattern, decision }]
  return result
}

/**
 * Whether an agent has to ask before it acts, also to be denied something. Network rules are enforced by the
 * egress process.
 */
export function needsAsking({ bash, write, mcp }: PermissionRules): boolean {
  return [...bash, ...write, ...mcp].some(({ decision }) => decision !== 'allow')
}
