/** A project file can only narrow the network access that the user granted; anything more needs approval. */
import type { Budget } from '../core/network.ts'
import type { HostName } from './host-name.ts'
import { coversPattern } from './path-pattern.ts'
import { type HostPattern, hashRules, matchesHost, type Rule } from './rule.ts'

export interface Narrowed {
  /** The intersection of both: never wider than either. */
  readonly granted: readonly Rule[]
  /** The rules that go beyond the grants, for the user to approve. The approval is stored under the hash. */
  readonly asked: { readonly rules: readonly Rule[]; readonly hash: string } | undefined
}

/** SECURITY: CF-02. The user's budgets always apply; a project that names a larger one needs approval. */
export function narrow(project: readonly Rule[], user: readonly Rule[]): Narrowed {
  const granted = new Map<string, Rule>()
  for (const wanted of project) {
    for (const grant of user) {
      const rule = intersect(wanted, grant)
      if (rule) granted.set(`${hashRules([rule])} ${rule.within ? hashRules([rule.within]) : ''}`, rule)
    }
  }
  const beyond = project.filter((wanted) => !isCovered(wanted, user))
  const rules = [...new Map(beyond.map((rule) => [hashRules([rule]), rule])).values()]
  return {
    granted: [...granted.values()],
    asked: rules.length === 0 ? undefined : { rules, hash: hashRules(rules) },
  }
}

function intersect(wanted: Rule, grant: Rule): Rule | undefined {
  const host = narrowerHost(wanted.host, grant.host)
  const ports = both(listed(wanted), listed(grant))
  const methods =
    wanted.methods && grant.methods ? both(wanted.methods, grant.methods) : (wanted.methods ?? grant.methods)
  const paths =
    wanted.paths && grant.paths ? commonPaths(wanted.paths, grant.paths) : (wanted.paths ?? grant.paths)
  if (!host || ports.length === 0 || methods?.length === 0 || paths?.length === 0) return undefined
  const budget = smaller(wanted.budget, grant.budget)
  return {
    host,
    ports,
    ...(methods && { methods }),
    ...(paths && { paths }),
    isPrivate: wanted.isPrivate && grant.isPrivate,
    ...(budget && { budget }),
    source: 'project',
    // SECURITY: CF-02. Otherwise a hundred rules within one grant would each get its whole budget.
    ...(grant.budget && { within: grant }),
  }
}

/** Whether the user's rules cover each port, method and path of a rule. */
function isCovered(wanted: Rule, user: readonly Rule[]): boolean {
  return listed(wanted).every((port) =>
    (wanted.methods ?? [undefined]).every((method) =>
      (wanted.paths ?? [undefined]).every((path) =>
        user.some(
          (grant) =>
            coversHost(grant.host, wanted.host) &&
            listed(grant).includes(port) &&
            (!grant.methods || (method !== undefined && grant.methods.includes(method))) &&
            (!grant.paths || (path !== undefined && grant.paths.some((one) => coversPattern(one, path)))) &&
            (grant.isPrivate || !wanted.isPrivate) &&
            isWithin(wanted.budget, grant.budget),
        ),
      ),
    ),
  )
}

// A grant always lists its ports; a rule for any port is a denial and grants nothing.
function listed({ ports }: Rule): readonly number[] {
  return ports === 'any' ? [] : ports
}

function coversHost(outer: HostPattern, inner: HostPattern): boolean {
  if (outer === inner) return true
  // Every name below a name that `outer` matches is matched too.
  return outer.startsWith('*.') && matchesHost(outer, inner.replace(/^\*\./, '') as HostName)
}

function narrowerHost(one: HostPattern, other: HostPattern): HostPattern | undefined {
  if (coversHost(one, other)) return other
  return coversHost(other, one) ? one : undefined
}

function commonPaths(wanted: readonly string[], granted: readonly string[]): string[] {
  return both(
    [...wanted, ...granted],
    [...wanted, ...granted].filter(
      (path) =>
        wanted.some((one) => coversPattern(one, path)) && granted.some((one) => coversPattern(one, path)),
    ),
  )
}

function both<T>(some: readonly T[], others: readonly T[]): T[] {
  return [...new Set(some)].filter((one) => others.includes(one))
}

function smaller(one: Budget | undefined, other: Budget | undefined): Budget | undefined {
  const least = (a: number | undefined, b: number | undefined) =>
    a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
  const bytes = least(one?.bytes, other?.bytes)
  const requestsPerMinute = least(one?.requestsPerMinute, other?.requestsPerMinute)
  if (bytes === undefined && requestsPerMinute === undefined) return undefined
  return {
    ...(bytes !== undefined && { bytes }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
  }
}

function isWithin(wanted: Budget | undefined, grant: Budget | undefined): boolean {
  const fits = (a: number | undefined, b: number | undefined) => a === undefined || b === undefined || a <= b
  return fits(wanted?.bytes, grant?.bytes) && fits(wanted?.requestsPerMinute, grant?.requestsPerMinute)
}
