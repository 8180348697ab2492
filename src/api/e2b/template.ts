/** E2B's templates: `base`, which is the debian base with the user `user` and sudo, and every snapshot. */
import type { Environment } from '../../core/environment.ts'
import { AgentPodError } from '../../core/error.ts'
import type { SnapshotId } from '../../core/id.ts'
import type { Kit } from '../../core/recipe.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Optional } from '../../util/optional.ts'

export const BASE_TEMPLATE = 'base'

const TAG = /:(?:latest|default)$/

/** E2B's names may end with a tag; the two default tags are dropped. */
export function withoutTag(name: string): string {
  return name.replace(TAG, '')
}

export interface Template {
  /** The id that E2B's clients see. */
  readonly id: string
  readonly environment: Optional<Environment>
  /** What the base contains besides the system. */
  readonly kit?: Kit
  readonly snapshot?: SnapshotId
}

/** Finds a template by its name, `base` by default. Throws `not_found` if there is none. */
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
    hint: `use '${BASE_TEMPLATE}', or the id or name of a snapshot; building templates is planned for a later release`,
  })
}
