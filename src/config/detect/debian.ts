/** From the names of libraries to the packages of Debian's that hold what they are built against. */
import type { Evidence } from '../evidence.ts'
import type { FoundPackage } from './finding.ts'

/** What a library needs, its packages parted by blanks. */
export type PackageTable = ReadonlyMap<string, string>

/** A library that a project names, and where. */
export interface Named {
  readonly name: string
  readonly evidence: Evidence
}

export function packageTable(table: Readonly<Record<string, string>>): PackageTable {
  return new Map(Object.entries(table))
}

/** Each package once, with the first place that asks for it. */
export function packagesFor(table: PackageTable, named: Iterable<Named>): readonly FoundPackage[] {
  const found: FoundPackage[] = []
  for (const { name, evidence } of named) found.push(...packagesOf(table.get(name) ?? '', evidence))
  return distinctPackages(found)
}

export function packagesOf(names: string, evidence: Evidence): readonly FoundPackage[] {
  return names.split(' ').flatMap((name) => (name === '' ? [] : [{ name, evidence }]))
}

export function distinctPackages(packages: readonly FoundPackage[]): readonly FoundPackage[] {
  const seen = new Map<string, FoundPackage>()
  for (const one of packages) if (!seen.has(one.name)) seen.set(one.name, one)
  return [...seen.values()]
}
