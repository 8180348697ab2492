/** The search sets of one sandbox, built once and kept until its secrets change. */
import type { BoundSecret } from '../../core/secret.ts'
import { SearchSet } from '../../secrets/search-set.ts'
import { hostText } from '../destination.ts'
import type { Site } from '../http/request-target.ts'

export interface SecretSearchSets {
  /** The placeholders of all secrets, in their order. */
  readonly placeholders: SearchSet
  /**
   * The values that a response of the site may contain. Only called for sites that slots name, so few are
   * kept.
   */
  values(site: Site, bound: readonly BoundSecret[]): SearchSet
}

/**
 * Keyed by the list of secrets: an update of the sandbox brings a new list, and the old sets are collected.
 */
const BUILT = new WeakMap<readonly BoundSecret[], SecretSearchSets>()

export function searchSetsOf(secrets: readonly BoundSecret[]): SecretSearchSets {
  const known = BUILT.get(secrets)
  if (known) return known
  const sites = new Map<string, SearchSet>()
  const made: SecretSearchSets = {
    placeholders: new SearchSet(secrets.map(({ placeholder }) => placeholder)),
    values({ destination }, bound) {
      const key = `${hostText(destination)} ${destination.port}`
      const values = sites.get(key) ?? new SearchSet(bound.flatMap(valuesOf))
      sites.set(key, values)
      return values
    },
  }
  BUILT.set(secrets, made)
  return made
}

/** Basic authorization encodes the user and the value together. */
function valuesOf({ value, slot }: BoundSecret): string[] {
  return slot.scheme.kind === 'basic' ? [value, `${slot.scheme.user}:${value}`] : [value]
}
