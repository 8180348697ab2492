/** The decision about one connection or one request. Pure: the same policy and question give the same answer, in whatever order the rules stand. */
import type { AddressLists, NetworkMode } from '../core/network.ts'
import type { HostName } from './host-name.ts'
import { matchPath, normalPath } from './path-pattern.ts'
import { DEFAULT_PORTS, describeRule, isSendableMethod, matchesHost, matchesPort, type Rule } from './rule.ts'
import { isNeverReachable, isPublicName } from './special-name.ts'

export interface NetworkPolicy {
  readonly mode: NetworkMode
  readonly rules: readonly Rule[]
  readonly denied: readonly Rule[]
  /** Checked by whoever dials: `denied` against every address, `allowed` in place of a rule for a connection to a bare address. */
  readonly addresses?: AddressLists | undefined
}

/** A connection has no method and path yet; a request has both. */
export interface Asked {
  readonly host: HostName
  readonly port: number
  readonly method?: string | undefined
  /** The request target in origin form, as it will be sent. */
  readonly path?: string | undefined
}

export type DecisionReason =
  | 'rule.allow'
  | 'rule.deny'
  | 'rule.none'
  | 'open.allow'
  | 'open.host'
  | 'open.port'
  | 'mode.off'
  | 'host.never'
  | 'request.method'
  | 'request.path'
  /** A rule on methods or paths decides, so whoever can look into the connection asks again for each request; others refuse. */
  | 'request.unseen'

export interface Decision {
  readonly allowed: boolean
  readonly reason: DecisionReason
  readonly rule?: Rule | undefined
  readonly message: string
  readonly hint: string
  /** Goes to `isDialable` with each address that the name resolves to. */
  readonly allowPrivate: boolean
}

type Effect = 'allow' | 'deny'
interface Candidate {
  readonly rule: Rule
  readonly effect: Effect
  readonly isSeen: boolean
  readonly rank: readonly number[]
}

export function decide(policy: NetworkPolicy, asked: Asked): Decision {
  const { host, port } = asked
  if (policy.mode === 'off')
    return refused('mode.off', 'this sandbox has no network', 'create one with --net allowlist')
  if (isNeverReachable(host))
    return refused('host.never', `${host} is the host itself or its metadata service`, 'no rule opens it')
  if (asked.method !== undefined && !isSendableMethod(asked.method))
    return refused(
      'request.method',
      'this method is never passed on',
      'use GET, POST or another common method',
    )

  const near = [...policy.rules, ...policy.denied].filter(
    (rule) => matchesHost(rule.host, host) && matchesPort(rule.ports, port),
  )
  const path = asked.path === undefined ? undefined : normalPath(asked.path)
  if (asked.path !== undefined && path === undefined && near.some((rule) => rule.paths))
    return refused(
      'request.path',
      `${host} has rules on paths, and this path could mean several`,
      'send it without dot segments, backslashes and doubled escapes',
    )

  const candidates = [
    ...policy.denied.flatMap((rule) => candidate(rule, 'deny', asked, path)),
    ...policy.rules.flatMap((rule) => candidate(rule, 'allow', asked, path)),
  ].sort(before(policy.denied.some((rule) => near.includes(rule))))
  const decisive = candidates.find(({ isSeen }) => isSeen)
  const outcome = decisive ? byRule(decisive, asked) : byDefault(policy, asked)
  // What cannot be seen yet matters only where it would turn the outcome.
  const unseen = candidates
    .slice(0, decisive ? candidates.indexOf(decisive) : undefined)
    .find(({ effect }) => (effect === 'allow') !== outcome.allowed)
  if (!unseen) return outcome
  return {
    ...refused(
      'request.unseen',
      `${host} has rules on methods or paths, which this connection does not show`,
      'send the request as HTTP, or as TLS that trusts the certificate authority of this sandbox',
    ),
    rule: unseen.rule,
  }
}

function candidate(rule: Rule, effect: Effect, asked: Asked, path: string | undefined): Candidate[] {
  const { host, methods, paths } = rule
  if (!matchesHost(host, asked.host) || !matchesPort(rule.ports, asked.port)) return []
  if (methods && asked.method !== undefined && !methods.includes(asked.method)) return []
  let pathRank: number | undefined = -1
  if (paths) pathRank = path === undefined ? Number.MAX_SAFE_INTEGER : matchPath(paths, path, effect)
  if (pathRank === undefined) return []
  const isSeen = !(methods && asked.method === undefined) && !(paths && path === undefined)
  const rank = [host.startsWith('*.') ? 0 : 1, host.split('.').length, pathRank, methods ? 1 : 0]
  return [{ rule, effect, isSeen, rank }]
}

/**
 * The closest first: exact hosts, then longer domains, then closer paths, then methods; between equals the denial, then the
 * wider grant.
 *
 * SECURITY: CF-02. A project that asks for a closer path than the one its user denied would slip past the denial, so where there is one, what a
 * project asked for stands last.
 */
function before(isDenied: boolean): (a: Candidate, b: Candidate) => number {
  const key = ({ rule, effect, rank }: Candidate): number[] => [
    isDenied && effect === 'allow' && rule.source === 'project' ? 0 : 1,
    ...rank,
    effect === 'deny' ? 1 : 0,
    rule.isPrivate ? 1 : 0,
    rule.budget ? 0 : 1,
  ]
  return (a, b) => {
    const [left, right] = [key(a), key(b)]
    const at = left.findIndex((value, index) => value !== right[index])
    if (at >= 0) return (right[at] ?? 0) - (left[at] ?? 0)
    const [one, other] = [a, b].map(({ rule }) => `${describeRule(rule)} ${rule.source}`)
    return (one ?? '') < (other ?? '') ? -1 : one === other ? 0 : 1
  }
}

function byRule({ rule, effect }: Candidate, { host }: Asked): Decision {
  const where = `${describeRule(rule)} (${rule.source})`
  if (effect === 'deny')
    return { ...refused('rule.deny', `${host} is denied by ${where}`, 'ask the user to lift it'), rule }
  return {
    allowed: true,
    reason: 'rule.allow',
    rule,
    message: `${host} is allowed by ${where}`,
    hint: rule.isPrivate ? 'it may be on a private address' : 'it must be on a public address',
    allowPrivate: rule.isPrivate,
  }
}

function byDefault({ mode, rules }: NetworkPolicy, { host, port }: Asked): Decision {
  const place = DEFAULT_PORTS.includes(port) ? host : `${host}:${port}`
  const allow = `ask the user for \`agentpod allow NAME ${place}\``
  if (mode === 'open') {
    if (!isPublicName(host))
      return refused(
        'open.host',
        `${host} is not a name of the public internet`,
        'ask the user for a private rule',
      )
    if (!DEFAULT_PORTS.includes(port))
      return refused('open.port', `an open network is open on ports ${DEFAULT_PORTS.join(' and ')}`, allow)
    return {
      allowed: true,
      reason: 'open.allow',
      message: `${host} is allowed because the network is open`,
      hint: 'it must be on a public address',
      allowPrivate: false,
    }
  }
  const close = rules.filter((rule) => matchesHost(rule.host, host)).map(describeRule)
  const hint = close.length > 0 ? `${allow}; what there is: ${close.sort()[0]}` : allow
  return refused('rule.none', `no rule allows ${place}`, hint)
}

function refused(reason: DecisionReason, message: string, hint: string): Decision {
  return { allowed: false, reason, message, hint, allowPrivate: false }
}
