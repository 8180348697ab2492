/** What a project's file may do to the network: use less than its user granted, and ask for the rest. */
import type { Budget } from '../core/network.ts'
import type { HostName } from './host-name.ts'
import { coversPattern } from './path-pattern.ts'
import { type HostPattern, hashRules, matchesHost, type Rule } from './rule.ts'

export interface Narrowed {
  /** Where both agree: never wider than either. */
  readonly granted: readonly Rule[]
  /** What goes beyond, as the project wrote it, to be put to the user once; the hash is what the answer is remembered by. */
  readonly asked: { readonly rules: readonly Rule[]; readonly hash: string } | undefined
}

/** SECURITY: CF-02. Budgets of the user hold in silence; a larger one that a project names is asked for. */
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
    // SECURITY: CF-02. Without it a hundred slices of one grant would have a hundred budgets.
    ...(grant.budget && { within: grant }),
  }
}

/** Whether the user's rules together grant the whole of one: each port, method and path of it lies inside one of them. */
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

// A grant always lists its ports; what does not is a denial that strayed here, and grants nothing.
function listed({ ports }: Rule): readonly number[] {
  return ports === 'any' ? [] : ports
}

function coversHost(outer: HostPattern, inner: HostPattern): boolean {
  if (outer === inner) return true
  // Below a name that lies below `outer` everything does.
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
