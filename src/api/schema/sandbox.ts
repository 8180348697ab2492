/** What `/v1/sandboxes` takes and gives. Unknown keys are errors. */
import { z } from 'zod'
import { BASES } from '../../core/environment.ts'
import { STATES } from '../../core/lifecycle.ts'

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/
const LABEL_KEY = /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,62}[A-Za-z0-9])?$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are refused
const CONTROL = /[\u0000-\u001f\u007f]/

const plainText = (longest: number): z.ZodString =>
  z
    .string()
    .max(longest)
    .refine((text) => !CONTROL.test(text), 'has control characters') as z.ZodString

export const labels = z
  .record(
    z.string().regex(LABEL_KEY, 'label keys are letters, digits, dots, dashes, slashes'),
    plainText(256),
  )
  .refine((map) => Object.keys(map).length <= 64, 'at most 64 labels')

const variables = z
  .record(
    z.string().regex(VARIABLE, 'variable names are letters, digits and underscores'),
    z
      .string()
      .max(128 * 1024)
      .refine((value) => !value.includes('\0'), 'has a NUL byte'),
  )
  .refine((map) => Object.keys(map).length <= 1024, 'at most 1024 variables')

export const environment = z.strictObject({
  base: z.enum(BASES).optional(),
  variables: variables.optional(),
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'is not a user name')
    .optional(),
  workdir: plainText(4096).optional(),
  sudo: z.boolean().optional(),
})

export const resources = z.strictObject({
  memoryMib: z.number().optional(),
  swapMib: z.number().optional(),
  cpus: z.number().optional(),
  pids: z.number().optional(),
  files: z.number().optional(),
  tmpMib: z.number().optional(),
  shmMib: z.number().optional(),
})

export const createSandbox = z.strictObject({
  name: z.string().optional(),
  labels: labels.optional(),
  environment: environment.optional(),
  resources: resources.optional(),
  lifetime: z.strictObject({ ttlMs: z.number().optional(), idleMs: z.number().optional() }).optional(),
  ports: z.strictObject({ public: z.boolean() }).optional(),
})
export type CreateSandbox = z.infer<typeof createSandbox>

export const extendSandbox = z.strictObject({ ttlMs: z.number() })

const limit = z.object({ level: z.enum(['enforced', 'soft', 'none']), reason: z.string().optional() })

export const sandbox = z.object({
  id: z.string(),
  name: z.string().nullable(),
  state: z.enum(STATES),
  provider: z.string(),
  labels: z.record(z.string(), z.string()),
  base: z.enum(BASES),
  user: z.string(),
  workdir: z.string(),
  sudo: z.boolean(),
  resources: resources.required(),
  limits: z.object({ memory: limit, swap: limit, cpus: limit, pids: limit, files: limit }).nullable(),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  deadlineAt: z.string(),
  idleMs: z.number(),
  endedAt: z.string().nullable(),
  ending: z.object({ code: z.string(), reason: z.string(), message: z.string() }).nullable(),
})
export type SandboxView = z.infer<typeof sandbox>

export const stats = z.object({
  cpuMs: z.number(),
  memBytes: z.number(),
  memPeakBytes: z.number(),
  memLimitBytes: z.number(),
  pids: z.number(),
  pidsLimit: z.number(),
  oomKills: z.number(),
  diskBytes: z.number(),
  processes: z.number(),
  uptimeMs: z.number(),
  idleForMs: z.number(),
})
export type StatsView = z.infer<typeof stats>

export const preview = z.object({ url: z.string(), openUrl: z.string().nullable() })
export type PreviewView = z.infer<typeof preview>

export const event = z.object({
  seq: z.number(),
  at: z.string(),
  type: z.string(),
  data: z.record(z.string(), z.unknown()),
})
export type EventView = z.infer<typeof event>
