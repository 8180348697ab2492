/** What a layer is known by: everything that could make it another one. */
import { createHash } from 'node:crypto'
import { kindOf } from '../bases/bases.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { Recipe, RecipeBase, Step } from '../core/recipe.ts'
import { canonical } from '../util/canonical.ts'

/** Raised when what a step does with its inputs changes. */
const BUILDER = 2

/** The base as it lies on a provider; its kind says what it is known by. Layers of one provider are not another's. */
export function baseKey(base: RecipeBase, provider: Provider, root: RootRef, arch: string): string {
  const identity = kindOf(base.name).identity(base, root, provider)
  return digest(['base', BUILDER, arch, provider.name, base.name, identity])
}

/** SECURITY: what a step may reach and its variables are in it too: whoever leads a build elsewhere gets a layer of their own. */
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
  return createHash('sha256').update(canonical(value)).digest('hex')
}
