/** The key of a layer: a digest of everything that changes its content. */
import { createHash } from 'node:crypto'
import { baseKind } from '../bases/bases.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { Recipe, RecipeBase, Step } from '../core/recipe.ts'
import { canonicalJson } from '../util/canonical-json.ts'

/** Increase this when a step treats its inputs differently. */
const BUILDER = 2

/** The key of a base on a provider. Providers do not share layers. */
export function baseKey(base: RecipeBase, provider: Provider, root: RootRef, arch: string): string {
  const identity = baseKind(base.name).identity(base, root, provider)
  return digest(['base', BUILDER, arch, provider.name, base.name, identity])
}

/**
 * SECURITY: network rules and variables are part of the key, so a build that is redirected to other hosts
 * gets its own layer.
 */
export function stepKey(parent: string, step: Step): string {
  const { name: _, title: __, timeoutMs: ___, files, ...rest } = step
  return digest(['step', parent, rest, files && [files.digest, files.to]])
}

/** The keys of all layers, lowest first. */
export function layerKeys(recipe: Recipe, base: string): string[] {
  const keys: string[] = []
  for (const step of recipe.steps) keys.push(stepKey(keys.at(-1) ?? base, step))
  return keys
}

function digest(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex')
}
