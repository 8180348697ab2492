/** E2B's templates. There is one until they can be built: `base`, our debian with its user and sudo. */
import type { Environment } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Some } from '../../core/some.ts'

export const BASE_TEMPLATE = 'base'

const TAGS = new Set(['', ':latest', ':default'])

/** What a template's name stands for; `not_found` for one that does not exist. No name means `base`. */
export function environmentOf(template: string | null | undefined): Some<Environment> {
  const name = template || BASE_TEMPLATE
  if (!name.startsWith(BASE_TEMPLATE) || !TAGS.has(name.slice(BASE_TEMPLATE.length))) {
    throw new AgentPodError({
      code: 'not_found',
      reason: 'template.unknown',
      message: `template '${name}' not found`,
      hint: `the one template here is '${BASE_TEMPLATE}'; building others comes later`,
    })
  }
  return { base: 'debian', user: 'user', sudo: true, workdir: '' }
}
