/** E2B's templates: `base`, our debian with its user and sudo, and every snapshot. Building others comes later. */
import type { Environment } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import type { SnapshotId } from '../../core/id.ts'
import type { Kit } from '../../core/recipe.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Some } from '../../core/some.ts'

export const BASE_TEMPLATE = 'base'

const TAG = /:(?:latest|default)$/

/** E2B's names may end with a tag; the two that say nothing are passed over. */
export function withoutTag(name: string): string {
  return name.replace(TAG, '')
}

export interface Template {
  /** As E2B's clients are told it. */
  readonly id: string
  readonly environment: Some<Environment>
  /** What its base has besides the system. */
  readonly kit?: Kit
  readonly snapshot?: SnapshotId
}

/** What a template's name stands for; `not_found` for one that does not exist. No name means `base`. */
export function findTemplate(
  asked: string | null | undefined,
  snapshotOf: (ref: string) => Snapshot | undefined,
): Template {
  const name = withoutTag(asked || BASE_TEMPLATE)
  if (name === BASE_TEMPLATE) {
    return {
      id: BASE_TEMPLATE,
      environment: { base: 'debian', user: 'user', sudo: true, workdir: '' },
      kit: 'development',
    }
  }
  const snapshot = snapshotOf(name)
  if (snapshot) return { id: snapshot.id, environment: {}, snapshot: snapshot.id }
  throw new AgentPodError({
    code: 'not_found',
    reason: 'template.unknown',
    message: `template '${asked}' not found`,
    hint: `there is '${BASE_TEMPLATE}', and every snapshot by its id or name; building others comes later`,
  })
}
