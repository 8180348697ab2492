/** The order in which the members of a group start. */
import { invalid } from '../../core/error.ts'

interface Ordered {
  readonly name: string
  readonly after: readonly string[]
}

/** Refuses unknown names and cycles. */
export function checkOrder(members: readonly Ordered[]): void {
  const names = new Set(members.map(({ name }) => name))
  for (const { name, after } of members) {
    const unknown = after.find((one) => !names.has(one))
    if (unknown !== undefined)
      throw invalid('group.order', `${name} comes after ${unknown}, which is no member of the group`)
  }
  const cycle = cycleIn(members)
  if (cycle) throw invalid('group.order', `members wait for each other: ${cycle.join(' → ')}`)
}

function cycleIn(members: readonly Ordered[]): string[] | undefined {
  const done = new Set<string>()
  const visit = (name: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name]
    if (done.has(name)) return undefined
    for (const before of members.find((one) => one.name === name)?.after ?? []) {
      const found = visit(before, [...path, name])
      if (found) return found
    }
    done.add(name)
    return undefined
  }
  for (const { name } of members) {
    const found = visit(name, [])
    if (found) return found
  }
  return undefined
}

/**
 * Does the work for each member once it is done for those before it. After a failure no more work begins;
 * what has begun is awaited, and the first error is thrown.
 */
export async function inOrder<T extends Ordered>(
  members: readonly T[],
  work: (member: T) => Promise<unknown>,
): Promise<void> {
  const begun = new Map<string, Promise<void>>()
  const failures: unknown[] = []
  const begin = (member: T): Promise<void> => {
    const known = begun.get(member.name)
    if (known) return known
    const before = member.after.flatMap((name) => members.filter((one) => one.name === name)).map(begin)
    const doing = Promise.all(before).then(async () => {
      if (failures.length > 0) return
      try {
        await work(member)
      } catch (error) {
        failures.push(error)
      }
    })
    begun.set(member.name, doing)
    return doing
  }
  await Promise.all(members.map(begin))
  if (failures.length > 0) throw failures[0]
}

/** Some of the members. Each still comes after those before it, also where one between them is left out. */
export function among<T extends Ordered>(members: readonly T[], isIn: (member: T) => boolean): T[] {
  const byName = new Map(members.map((one) => [one.name, one]))
  const before = ({ after }: Ordered): string[] =>
    after.flatMap((name) => {
      const one = byName.get(name)
      if (!one) return []
      return isIn(one) ? [name] : before(one)
    })
  return members.filter(isIn).map((one) => ({ ...one, after: [...new Set(before(one))] }))
}

/** The same work in the opposite order. */
export function reversed<T extends Ordered>(members: readonly T[]): T[] {
  return members.map((member) => ({
    ...member,
    after: members.filter(({ after }) => after.includes(member.name)).map(({ name }) => name),
  }))
}
