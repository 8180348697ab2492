/** Explains why a step is not cached: what changed since the last build. */
import type { RecipeBase, Step } from '../core/recipe.ts'
import type { Layer } from '../engine/snapshots/snapshot-registry.ts'
import { canonicalJson } from '../util/canonical-json.ts'

export interface WantedStep {
  readonly parent: string | undefined
  readonly base: RecipeBase
  readonly step: Step
  readonly project: string
}

const MOST_NAMED = 5

/**
 * One line for a person. Compares with the newest layer of the same project and step that the caller may see.
 */
export function explainMiss(layers: readonly Layer[], wanted: WantedStep): string {
  const last = layers
    .filter(({ layer }) => layer.project === wanted.project && layer.step.name === wanted.step.name)
    .toSorted((a, b) => b.createdAt - a.createdAt)[0]?.layer
  if (!last) return 'it was never built'
  const { step, base } = last
  if (!isSame(base, wanted.base)) return `the base changed${baseChange(base, wanted.base)}`
  const changed = [
    ...(step.run === wanted.step.run ? [] : ['its command']),
    ...(isSame(step.path, wanted.step.path) ? [] : ['its PATH']),
    ...differing(step.variables, wanted.step.variables).map((name) => `variable ${name}`),
    ...filesChange(step, wanted.step),
    ...(isSame(step.network, wanted.step.network) ? [] : ['its network rules']),
    ...(step.user === wanted.step.user && step.workdir === wanted.step.workdir
      ? []
      : ['its user or directory']),
  ]
  if (changed.length > 0) {
    const more = changed.length - MOST_NAMED
    return `changed: ${changed.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  }
  return last.parent === wanted.parent ? 'its layer was removed' : 'a step before it changed'
}

/** For very many files, the names are not stored. */
function filesChange({ files: before }: Step, { files: now }: Step): string[] {
  if (before?.digest === now?.digest) return before?.to === now?.to ? [] : ['where its files go']
  const names = differing(before?.entries ?? {}, now?.entries ?? {})
  const isKnown = [before, now].every((one) => !one || Object.keys(one.entries).length > 0)
  return isKnown && names.length > 0 ? names : ['its files']
}

function baseChange(before: RecipeBase, now: RecipeBase): string {
  if (before.name !== now.name) return `: ${before.name} is now ${now.name}`
  if (before.suite !== now.suite)
    return `: ${before.suite ?? 'its release'} is now ${now.suite ?? 'another one'}`
  if (before.image !== now.image || before.digest !== now.digest)
    return `: ${shown(before)} is now ${shown(now)}`
  const tools = differing(before.tools ?? {}, now.tools ?? {})
  return tools.length > 0 ? `: ${tools.join(', ')}` : ''
}

function shown({ image = 'no image', digest }: RecipeBase): string {
  // An image that was built here is named with its digest already.
  return digest === undefined || image.includes('@') ? image : `${image}@${digest}`
}

/** Names whose values differ. */
function differing(
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(now)])]
    .filter((name) => before[name] !== now[name])
    .sort()
}

function isSame(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b)
}
