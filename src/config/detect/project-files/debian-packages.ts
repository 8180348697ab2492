/** Maps names of libraries to the Debian packages needed to build against them. */
import type { Evidence } from '../../evidence.ts'
import type { FoundPackage } from '../finding.ts'

/** Packages by library, separated by spaces. */
export type PackageTable = ReadonlyMap<string, string>

/** A library that a project names, with its evidence. */
export interface NamedLibrary {
  readonly name: string
  readonly evidence: Evidence
}

export function packageTable(table: Readonly<Record<string, string>>): PackageTable {
  return new Map(Object.entries(table))
}

/** Each package once, with its first evidence. */
export function packagesFor(table: PackageTable, named: Iterable<NamedLibrary>): readonly FoundPackage[] {
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
