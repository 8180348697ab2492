/** Decides about one connection or request. A pure function: the order of the rules does not matter. */
import type { AddressLists, NetworkMode } from '../core/network.ts'
import type { HostName } from './host-name.ts'
import { matchPath, normalPath } from './path-pattern.ts'
import { DEFAULT_PORTS, describeRule, isSendableMethod, matchesHost, matchesPort, type Rule } from './rule.ts'
import { isNeverReachable, isPublicName } from './special-name.ts'

export interface NetworkPolicy {
  readonly mode: NetworkMode
  readonly rules: readonly Rule[]
  readonly denied: readonly Rule[]
  /** Checked before dialing: `denied` for every address, `allowed` for connections to a bare address. */
  readonly addresses?: AddressLists | undefined
  /** Host names of the members of its group, which the sandbox may reach on every port, in every mode. */
  readonly members?: readonly string[] | undefined
}

/** A connection, or a request if method and path are set. */
export interface DecisionInput {
  readonly host: HostName
  readonly port: number
  readonly method?: string | undefined
  /** The request target in origin form, as it is sent. */
  readonly path?: string | undefined
}

export type DecisionReason =
  | 'group.allow'
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
  /**
   * A rule on methods or paths decides: the connection must be inspected and each request decided, or it is
   * refused.
   */
  | 'request.unseen'

export interface NetworkDecision {
  readonly allowed: boolean
  readonly reason: DecisionReason
  readonly rule?: Rule | undefined
  readonly message: string
  readonly hint: string
  /** Passed to `isDialable` for each address that the name resolves to. */
  readonly allowPrivate: boolean
  /** The name stands for a member of the sandbox's group; it is never resolved. */
  readonly isMember?: boolean | undefined
}

type Effect = 'allow' | 'deny'
interface Candidate {
  readonly rule: Rule
  readonly effect: Effect
  readonly isSeen: boolean
  readonly rank: readonly number[]
}

export function decide(policy: NetworkPolicy, asked: DecisionInput): NetworkDecision {
  const { host, port } = asked
  if (policy.members?.includes(host) && !isNeverReachable(host) && !isPublicName(host))
    return toMember(policy, asked)
  if (policy.mode === 'off')
    return refused('mode.off', 'this sandbox has no network', 'create a sandbox with --net allowlist')
  if (isNeverReachable(host))
    return refused(
      'host.never',
      `${host} is the host machine or a cloud metadata service`,
      'no rule can allow it',
    )
  if (asked.method !== undefined && !isSendableMethod(asked.method))
    return refused(
      'request.method',
      'this HTTP method is not forwarded',
      'use GET, POST or another common method',
    )

  const near = [...policy.rules, ...policy.denied].filter(
    (rule) => matchesHost(rule.host, host) && matchesPort(rule.ports, port),
  )
  const path = asked.path === undefined ? undefined : normalPath(asked.path)
  if (asked.path !== undefined && path === undefined && near.some((rule) => rule.paths))
    return refused(
      'request.path',
      `${host} has rules on paths, and this path is ambiguous`,
      'send it without dot segments, backslashes and double escapes',
    )

  const candidates = [
    ...policy.denied.flatMap((rule) => candidate(rule, 'deny', asked, path)),
    ...policy.rules.flatMap((rule) => candidate(rule, 'allow', asked, path)),
  ].sort(before(policy.denied.some((rule) => near.includes(rule))))
  const decisive = candidates.find(({ isSeen }) => isSeen)
  const outcome = decisive ? byRule(decisive, asked) : byDefault(policy, asked)
  // A rule whose method or path is not known yet only matters if it would change the outcome.
  const unseen = candidates
    .slice(0, decisive ? candidates.indexOf(decisive) : undefined)
    .find(({ effect }) => (effect === 'allow') !== outcome.allowed)
  if (!unseen) return outcome
  return {
    ...refused(
      'request.unseen',
      `${host} has rules on methods or paths, and the requests of this connection cannot be read`,
      'use HTTP, or HTTPS with a client that trusts the certificate authority of this sandbox',
    ),
    rule: unseen.rule,
  }
}

/** A denial of the user also holds for members; nothing else is needed to reach them. */
function toMember({ denied }: NetworkPolicy, asked: DecisionInput): NetworkDecision {
  const { host, port } = asked
  const rule = denied.find((one) => matchesHost(one.host, host) && matchesPort(one.ports, port))
  if (rule) return byRule({ rule, effect: 'deny', isSeen: true, rank: [] }, asked)
  return {
    allowed: true,
    reason: 'group.allow',
    message: `${host} is a member of the same group`,
    hint: 'the connection goes to the port inside that sandbox',
    allowPrivate: false,
    isMember: true,
  }
}

function candidate(rule: Rule, effect: Effect, asked: DecisionInput, path: string | undefined): Candidate[] {
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
 * The most specific first: exact hosts, then longer domains, then more specific paths, then methods; between
 * equals a denial comes before a grant, then the wider grant.
 *
 * SECURITY: CF-02. A project could bypass a denial of its user by asking for a more specific path. If there
 * is a denial, rules of the project therefore come last.
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

function byRule({ rule, effect }: Candidate, { host }: DecisionInput): NetworkDecision {
  const where = `${describeRule(rule)} (${rule.source})`
  if (effect === 'deny')
    return {
      ...refused('rule.deny', `${host} is denied by ${where}`, 'ask the user to remove the denial'),
      rule,
    }
  return {
    allowed: true,
    reason: 'rule.allow',
    rule,
    message: `${host} is allowed by ${where}`,
    hint: rule.isPrivate ? 'it may resolve to a private address' : 'it must resolve to a public address',
    allowPrivate: rule.isPrivate,
  }
}

function byDefault({ mode, rules }: NetworkPolicy, { host, port }: DecisionInput): NetworkDecision {
  const place = DEFAULT_PORTS.includes(port) ? host : `${host}:${port}`
  const allow = `ask the user to run \`agentpod allow NAME ${place}\``
  if (mode === 'open') {
    if (!isPublicName(host))
      return refused(
        'open.host',
        `${host} is not a public host name`,
        'ask the user for a rule with private = true',
      )
    if (!DEFAULT_PORTS.includes(port))
      return refused('open.port', `an open network only allows ports ${DEFAULT_PORTS.join(' and ')}`, allow)
    return {
      allowed: true,
      reason: 'open.allow',
      message: `${host} is allowed because the network is open`,
      hint: 'it must resolve to a public address',
      allowPrivate: false,
    }
  }
  const close = rules.filter((rule) => matchesHost(rule.host, host)).map(describeRule)
  const hint = close.length > 0 ? `${allow}; existing rule: ${close.sort()[0]}` : allow
  return refused('rule.none', `no rule allows ${place}`, hint)
}

function refused(reason: DecisionReason, message: string, hint: string): NetworkDecision {
  return { allowed: false, reason, message, hint, allowPrivate: false }
}
