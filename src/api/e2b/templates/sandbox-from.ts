/** A template that a sandbox can start from, and the options of such a sandbox. */

import type { MadeTemplate, TemplateRecord } from '../../../core/build/template.ts'
import type { Environment } from '../../../core/environment.ts'
import type { Kit } from '../../../core/recipe.ts'
import type { Optional } from '../../../util/optional.ts'

export const BASE_TEMPLATE = 'base'

/** The template of sandboxes that name none: Debian with Python, compilers, Node and git. */
export const BASE: MadeTemplate = {
  recipe: { base: { name: 'debian', kit: 'development' }, steps: [] },
  environment: { variables: {}, user: 'user', workdir: '' },
}

export interface FoundTemplate {
  readonly id: string
  readonly name: string
  readonly made: MadeTemplate
  readonly cpus?: number | undefined
  readonly memoryMib?: number | undefined
  readonly record?: TemplateRecord | undefined
}

export const BASE_FOUND: FoundTemplate = { id: BASE_TEMPLATE, name: BASE_TEMPLATE, made: BASE }

export interface TemplateSandbox {
  readonly environment: Optional<Environment>
  readonly kit?: Kit | undefined
  readonly suite?: string | undefined
  readonly resources?: { readonly cpus: number; readonly memoryMib: number }
}

export function sandboxFrom({ made, cpus, memoryMib }: FoundTemplate): TemplateSandbox {
  const { recipe, digest, environment } = made
  return {
    environment: {
      base: recipe.base.name,
      ...(recipe.base.image !== undefined && { image: recipe.base.image }),
      ...(digest !== undefined && { digest }),
      ...environment,
      sudo: true,
    },
    ...(recipe.base.kit !== undefined && { kit: recipe.base.kit }),
    ...(recipe.base.suite !== undefined && { suite: recipe.base.suite }),
    ...(cpus !== undefined && memoryMib !== undefined && { resources: { cpus, memoryMib } }),
  }
}
