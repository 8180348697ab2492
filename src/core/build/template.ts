/** Templates: named environments that clients of E2B's API build, and start sandboxes from. */
import type { Environment } from '../environment.ts'
import type { Recipe } from '../recipe.ts'

export interface TemplateRecord {
  readonly id: string
  readonly owner: string
  /** Unique among the templates of its owner. */
  readonly name: string
  /** Whether other keys may start sandboxes from it. */
  readonly isPublic: boolean
  readonly createdAt: number
  readonly updatedAt: number
  readonly spawnCount: number
  readonly lastSpawnedAt?: number | undefined
}

export const TEMPLATE_STATUSES = ['waiting', 'building', 'ready', 'error'] as const
export type TemplateStatus = (typeof TEMPLATE_STATUSES)[number]

export interface TemplateLog {
  readonly at: number
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
  readonly step?: string | undefined
}

export interface TemplateBuild {
  readonly id: string
  readonly templateId: string
  readonly status: TemplateStatus
  /** The tags that it gets when it is ready. */
  readonly tags: readonly string[]
  readonly cpus: number
  readonly memoryMib: number
  readonly createdAt: number
  readonly updatedAt: number
  readonly finishedAt?: number | undefined
  readonly made?: MadeTemplate | undefined
  /** Why it failed, and at which step. */
  readonly reason?: { readonly message: string; readonly step?: string | undefined } | undefined
  readonly logs: readonly TemplateLog[]
}

/** The result of a build: how its files were made, and the settings of sandboxes. */
export interface MadeTemplate {
  readonly recipe: Recipe
  /** The digest of the last layer; none where the recipe is only its base. */
  readonly digest?: string | undefined
  readonly environment: Pick<Environment, 'variables' | 'user' | 'workdir' | 'services'>
}

export interface TemplateTag {
  readonly templateId: string
  readonly tag: string
  readonly buildId: string
  readonly createdAt: number
}

/** What is stored about templates. Every write is on disk when the call returns. */
export interface TemplateStore {
  templates(): TemplateRecord[]
  saveTemplate(template: TemplateRecord): void
  /** With its builds and tags. */
  removeTemplate(id: string): void
  /** Newest first, without their logs. */
  builds(templateId: string): TemplateBuild[]
  build(id: string): TemplateBuild | undefined
  saveBuild(build: TemplateBuild): void
  removeBuild(id: string): void
  tags(templateId: string): TemplateTag[]
  saveTag(tag: TemplateTag): void
  removeTag(templateId: string, tag: string): void
}
