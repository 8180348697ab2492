/** Requests of E2B's clients about templates. Unknown keys are ignored, as at E2B. */
import * as z from 'zod'
import { MOST_STEPS } from '../../../core/recipe.ts'

const text = (most: number): z.ZodString =>
  z
    .string()
    .max(most, `has more than ${most} characters`)
    .refine((value) => !value.includes('\0'), 'contains a NUL byte') as z.ZodString

const tag = z
  .string()
  .regex(
    /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/,
    'a tag is 1 to 128 letters, digits, dots, dashes and underscores',
  )
const tags = z.array(tag).max(32, 'has more than 32 tags')

export const newTemplate = z.object({
  name: text(256).nullish(),
  /** The older name of `name`. */
  alias: text(256).nullish(),
  tags: tags.nullish(),
  cpuCount: z.number().int().min(1).max(64).nullish(),
  memoryMB: z
    .number()
    .int()
    .min(128)
    .max(1024 * 1024)
    .nullish(),
})
export type NewTemplateBody = z.infer<typeof newTemplate>

export const STEP_TYPES = ['COPY', 'ENV', 'RUN', 'USER', 'WORKDIR'] as const

const step = z.object({
  type: z.enum(STEP_TYPES, `a step is one of ${STEP_TYPES.join(', ')}`),
  args: z
    .array(text(64 * 1024))
    .max(2048)
    .default([]),
  filesHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'is no sha256 digest')
    .nullish(),
  force: z.boolean().nullish(),
})
export type TemplateStepBody = z.infer<typeof step>

export const startBuild = z.object({
  fromImage: text(512).nullish(),
  fromTemplate: text(256).nullish(),
  fromImageRegistry: z.unknown().optional(),
  startCmd: text(16 * 1024).nullish(),
  readyCmd: text(16 * 1024).nullish(),
  force: z.boolean().nullish(),
  steps: z.array(step).max(MOST_STEPS, `has more than ${MOST_STEPS} steps`).default([]),
})
export type StartBuildBody = z.infer<typeof startBuild>

export const filesHash = z.string().regex(/^[0-9a-f]{64}$/, 'is no sha256 digest')

export const updateTemplate = z.object({ public: z.boolean().nullish() })
export const assignTags = z.object({ target: text(512), tags: tags.min(1, 'has no tag') })
export const removeTags = z.object({ name: text(512), tags: tags.min(1, 'has no tag') })

const count = (most: number): z.ZodType<number | undefined> =>
  z.coerce.number().int().min(0).max(most).optional() as never

export const statusQuery = z.object({
  logsOffset: count(1e9),
  limit: count(1000),
  level: z.enum(['debug', 'info', 'warn', 'error']).optional(),
})
export const buildLogsQuery = z.object({
  cursor: count(1e15),
  limit: count(1000),
  direction: z.enum(['forward', 'backward']).optional(),
  level: z.enum(['debug', 'info', 'warn', 'error']).optional(),
})
