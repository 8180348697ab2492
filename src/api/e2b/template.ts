/** What E2B's clients call a template: a built environment, or a snapshot. */

import type { TemplateRecord } from '../../core/build/template.ts'
import type { Environment } from '../../core/environment.ts'
import type { SnapshotId } from '../../core/id.ts'
import type { Kit } from '../../core/recipe.ts'
import type { Resources } from '../../core/resources.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Optional } from '../../util/optional.ts'
import { type FoundTemplate, sandboxFrom } from './templates/sandbox-from.ts'

const TAG = /:(?:latest|default)$/

/** E2B's names may end with a tag; the two default tags are dropped. */
export function withoutTag(name: string): string {
  return name.replace(TAG, '')
}

export interface Template {
  /** The id that E2B's clients see. */
  readonly id: string
  readonly alias: string
  readonly environment: Optional<Environment>
  /** What the base contains besides the system. */
  readonly kit?: Kit | undefined
  readonly suite?: string | undefined
  readonly resources?: Partial<Resources> | undefined
  readonly snapshot?: SnapshotId
  /** The template of a key, whose sandboxes are counted. */
  readonly record?: TemplateRecord | undefined
}

export function templateOfSnapshot({ id }: Snapshot): Template {
  return { id, alias: id, environment: {}, snapshot: id }
}

export function templateOfTemplate(found: FoundTemplate): Template {
  return { id: found.id, alias: found.name, record: found.record, ...sandboxFrom(found) }
}
