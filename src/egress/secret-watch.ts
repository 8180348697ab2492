/** What the streams of one sandbox are looked through for, made ready once for as long as its secrets stay the same. */
import type { BoundSecret } from '../core/secret.ts'
import { Watch } from '../secrets/watch.ts'
import type { Site } from './http-target.ts'
import { hostText } from './target.ts'

export interface SecretWatch {
  /** Of all secrets, in their order. */
  readonly placeholders: Watch
  /** The values that may come back from a site. Called only for a site that has some, so that there are no more of these than slots name hosts. */
  values(site: Site, bound: readonly BoundSecret[]): Watch
}

/** Every change of a link brings another list, and the one before it goes with what was made of it. */
const MADE = new WeakMap<readonly BoundSecret[], SecretWatch>()

export function watchOf(secrets: readonly BoundSecret[]): SecretWatch {
  const known = MADE.get(secrets)
  if (known) return known
  const sites = new Map<string, Watch>()
  const made: SecretWatch = {
    placeholders: new Watch(secrets.map(({ placeholder }) => placeholder)),
    values({ target }, bound) {
      const key = `${hostText(target)} ${target.port}`
      const values = sites.get(key) ?? new Watch(bound.flatMap(valuesOf))
      sites.set(key, values)
      return values
    },
  }
  MADE.set(secrets, made)
  return made
}

/** In Basic authorization the value travels with its user before it. */
function valuesOf({ value, slot }: BoundSecret): string[] {
  return slot.scheme.kind === 'basic' ? [value, `${slot.scheme.user}:${value}`] : [value]
}
