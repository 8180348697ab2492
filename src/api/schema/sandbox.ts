/** What `/v1/sandboxes` takes and gives. Unknown keys are errors. */
import { z } from 'zod'
import { ISOLATIONS } from '../../core/capability.ts'
import { BASES, MOST_EXTRAS, STOP_SIGNALS } from '../../core/environment.ts'
import { isImageRef, LONGEST_IMAGE_REF } from '../../core/image-ref.ts'
import { STATES } from '../../core/lifecycle.ts'
import { WHEN_OVER } from '../../core/spec.ts'
import { errorFields } from './error.ts'
import { netCounts, networkRequest, sandboxNetwork } from './network.ts'

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

export const variables = z
  .record(
    z.string().regex(VARIABLE, 'variable names are letters, digits and underscores'),
    z
      .string()
      .max(128 * 1024)
      .refine((value) => !value.includes('\0'), 'has a NUL byte'),
  )
  .refine((map) => Object.keys(map).length <= 1024, 'at most 1024 variables')

export const userName = z.string().regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'is not a user name')

export const pathList = z.array(z.string().regex(/^\/[^:\0]{0,1000}$/, 'is not an absolute path')).max(64)

/** Lines for /bin/sh. */
const script = z
  .string()
  .max(16 * 1024)
  .refine((value) => !value.includes('\0'), 'has a NUL byte')

const MOST_SERVICE_MS = 30 * 60_000
/** All services of a sandbox together have half a minute; one need not ask for more. */
const MOST_STOP_MS = 30_000

const service = z.strictObject({
  name: z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/, 'is a name of small letters, digits, _ and -'),
  run: script.describe('For /bin/sh. It stays in the foreground.'),
  user: userName.default('user'),
  workdir: plainText(4096).default(''),
  variables: variables.default({}),
  ready: z
    .strictObject({
      command: script.optional().describe('Succeeds when it is ready.'),
      port: z.int().min(1).max(65_535).optional().describe('Takes connections when it is ready.'),
      timeoutMs: z.int().min(100).max(MOST_SERVICE_MS).default(60_000),
    })
    .default({ timeoutMs: 60_000 }),
  needsProject: z
    .boolean()
    .default(false)
    .describe(
      'It needs files that come after the sandbox is made; `POST /v1/sandboxes/{ref}/begin` starts it.',
    ),
  stopSignal: z.enum(STOP_SIGNALS).default('SIGTERM'),
  stopMs: z.int().min(0).max(MOST_STOP_MS).default(10_000),
})

const digest = z.string().regex(/^[0-9a-f]{64}$/, 'is not 64 hexadecimal digits')

/** A reference to a container image, as Docker reads it. */
export const imageRef = z
  .string()
  .max(LONGEST_IMAGE_REF)
  .refine(isImageRef, 'does not name an image: write one like debian:12 or ghcr.io/owner/name:tag')

export const environment = z.strictObject({
  base: z.enum(BASES).optional(),
  image: imageRef.optional().describe('Of the base `image`: its reference, like `debian:12`.'),
  digest: digest.optional().describe('What `POST /v1/builds` answered; its base is then the recipe’s.'),
  extras: z
    .array(digest)
    .max(MOST_EXTRAS)
    .optional()
    .describe(
      'What `POST /v1/builds` answered for other recipes on the same base: the last layer of each lies over everything else, a snapshot’s base too.',
    ),
  variables: variables.optional(),
  path: pathList.optional().describe('Directories put before the PATH.'),
  user: userName.optional(),
  workdir: plainText(4096).optional(),
  sudo: z.boolean().optional(),
  services: z
    .array(service)
    .max(32)
    .refine((list) => new Set(list.map(({ name }) => name)).size === list.length, 'two have one name')
    .optional()
    .describe('Started in this order, each ready before the next.'),
  start: script.optional().describe('For /bin/sh: runs at every start, after the services are ready.'),
})

export const resources = z.strictObject({
  memoryMib: z.number().optional(),
  swapMib: z.number().optional(),
  cpus: z.number().optional(),
  pids: z.number().optional(),
  files: z.number().optional(),
  tmpMib: z.number().optional(),
  shmMib: z.number().optional(),
  diskMib: z
    .number()
    .optional()
    .describe('What its files may take beyond those of its base or its snapshot.'),
})

export const lifetime = z.strictObject({
  ttlMs: z.number().optional(),
  idleMs: z.number().optional(),
  whenOver: z
    .enum(WHEN_OVER)
    .optional()
    .describe(
      'What becomes of it when its time is up: gone, frozen with its memory, or ended with its files kept.',
    ),
  autoResume: z
    .boolean()
    .optional()
    .describe(
      'Whether a call into it, or traffic to one of its ports, wakes it when it is paused or stopped.',
    ),
})

export const providerName = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, 'is not the name of a provider')

export const createSandbox = z.strictObject({
  name: z.string().optional(),
  provider: providerName.optional().describe('Which provider makes it; `GET /v1/providers` lists them.'),
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .describe('The lowest level of isolation that is accepted: a provider that offers less is never taken.'),
  labels: labels.optional(),
  environment: environment.optional(),
  resources: resources.optional(),
  lifetime: lifetime.optional(),
  ports: z.strictObject({ public: z.boolean() }).optional(),
  network: networkRequest.optional().describe('An allowlist with nothing on it when left out.'),
  snapshot: z
    .string()
    .max(64)
    .optional()
    .describe(
      'The id or name of a snapshot whose files it begins with. What is left out is as it was in the sandbox the snapshot was taken of.',
    ),
})
export type CreateSandbox = z.input<typeof createSandbox>

export const extendSandbox = z.strictObject({ ttlMs: z.number() })

/** There is nothing to say yet. */
export const beginSandbox = z.strictObject({})

/** For a sandbox that is woken. */
export const wakeSandbox = z.strictObject({
  ttlMs: z.number().optional().describe('Its time to live from now; the whole of it again when left out.'),
})

export const forkSandbox = z.strictObject({
  count: z.number().optional().describe('How many; one when left out.'),
  name: z.string().optional().describe('Of several, each gets its number behind it.'),
  labels: labels.optional(),
  lifetime: lifetime.optional(),
  resources: resources.optional(),
})
export type ForkSandbox = z.infer<typeof forkSandbox>

const limit = z.object({ level: z.enum(['enforced', 'soft', 'none']), reason: z.string().optional() })

export const sandbox = z.object({
  id: z.string(),
  name: z.string().nullable(),
  state: z.enum(STATES),
  provider: z.string(),
  isolation: z.enum(ISOLATIONS).describe('How it is kept apart from its host.'),
  labels: z.record(z.string(), z.string()),
  base: z.enum(BASES),
  image: z.string().optional().describe('Of the base `image`: its reference.'),
  environment: z.string().optional().describe('The digest of the built environment that it began with.'),
  services: z.array(z.string()).optional(),
  user: z.string(),
  workdir: z.string(),
  sudo: z.boolean(),
  resources: resources.required(),
  limits: z
    .object({ memory: limit, swap: limit, cpus: limit, pids: limit, files: limit, disk: limit })
    .nullable(),
  network: sandboxNetwork,
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  deadlineAt: z.string(),
  lifetime: lifetime.required(),
  idleMs: z.number().describe('As `lifetime` has it.'),
  snapshotId: z
    .string()
    .nullable()
    .describe(
      'The snapshot its files were last the same as: the one it was made from, or the newest taken of it.',
    ),
  forkedFrom: z.string().nullable().describe('The sandbox it is a fork of.'),
  endedAt: z.string().nullable(),
  ending: z.object({ code: z.string(), reason: z.string(), message: z.string() }).nullable(),
})
export type SandboxView = z.infer<typeof sandbox>

/** Each fork succeeds or fails for itself. */
export const forked = z.union([z.object({ sandbox }), z.object({ error: errorFields })])
export type ForkedView = z.infer<typeof forked>

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
  network: netCounts,
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

/** In lists that are not about one sandbox. */
export const sandboxEvent = event.extend({ sandboxId: z.string() })
export type SandboxEventView = z.infer<typeof sandboxEvent>
