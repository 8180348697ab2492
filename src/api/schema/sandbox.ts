/** Requests and answers of `/v1/sandboxes`. Unknown keys are errors. */
import * as z from 'zod'
import { ISOLATIONS } from '../../core/capability.ts'
import { BASES, MOST_EXTRAS, STOP_SIGNALS } from '../../core/environment.ts'
import { isImageRef, LONGEST_IMAGE_REF } from '../../core/image-ref.ts'
import { STATES } from '../../core/lifecycle.ts'
import { WHEN_OVER } from '../../core/spec.ts'
import { errorFields } from './error.ts'
import { netCountsView, networkRequest, sandboxNetwork } from './network.ts'
import { ephemeralDirectories, mountedVolume, volumeRequests } from './volume.ts'

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/
const LABEL_KEY = /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,62}[A-Za-z0-9])?$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are refused
const CONTROL = /[\u0000-\u001f\u007f]/

const plainText = (longest: number): z.ZodString =>
  z
    .string()
    .max(longest)
    .refine((text) => !CONTROL.test(text), 'contains control characters') as z.ZodString

export const labels = z
  .record(
    z.string().regex(LABEL_KEY, 'a label key may contain letters, digits, dots, dashes and slashes'),
    plainText(256),
  )
  .refine((map) => Object.keys(map).length <= 64, 'at most 64 labels')

const variableName = z.string().regex(VARIABLE, 'a variable name may contain letters, digits and underscores')
const MOST_UNSET = 256

export const variablesBody = z
  .record(
    variableName,
    z
      .string()
      .max(128 * 1024)
      .refine((value) => !value.includes('\0'), 'contains a NUL byte'),
  )
  .refine((map) => Object.keys(map).length <= 1024, 'at most 1024 variables')

/** A name, or numbers as images give them: UID or UID:GID. */
export const userName = z
  .string()
  .regex(/^(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}(?::[0-9]{1,10})?)$/, 'is not a user name')

export const pathList = z.array(z.string().regex(/^\/[^:\0]{0,1000}$/, 'is not an absolute path')).max(64)

/** Lines for /bin/sh. */
const script = z
  .string()
  .max(16 * 1024)
  .refine((value) => !value.includes('\0'), 'contains a NUL byte')

const MOST_SERVICE_MS = 30 * 60_000
/** All services of a sandbox together have half a minute to stop. */
const MOST_STOP_MS = 30_000

const service = z.strictObject({
  name: z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/, 'may contain lower-case letters, digits, _ and -'),
  run: script.describe('A command for /bin/sh that stays in the foreground.'),
  user: userName.default('user'),
  workdir: plainText(4096).default(''),
  variables: variablesBody.default({}),
  ready: z
    .strictObject({
      command: script.optional().describe('Succeeds when the service is ready.'),
      port: z.int().min(1).max(65_535).optional().describe('Accepts connections when the service is ready.'),
      timeoutMs: z.int().min(100).max(MOST_SERVICE_MS).default(60_000),
    })
    .default({ timeoutMs: 60_000 }),
  needsProject: z
    .boolean()
    .default(false)
    .describe(
      'The service needs the project’s files, which arrive after the sandbox is created; `POST /v1/sandboxes/{ref}/begin` starts it.',
    ),
  stopSignal: z.enum(STOP_SIGNALS).default('SIGTERM'),
  stopMs: z.int().min(0).max(MOST_STOP_MS).default(10_000),
})

const digest = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')

/** A reference to a container image, as Docker reads it. */
export const imageRef = z
  .string()
  .max(LONGEST_IMAGE_REF)
  .refine(isImageRef, 'is not an image reference; write it like debian:12 or ghcr.io/owner/name:tag')

export const environment = z.strictObject({
  base: z.enum(BASES).optional(),
  image: imageRef.optional().describe('For the base `image`: its reference, like `debian:12`.'),
  digest: digest
    .optional()
    .describe('The digest that `POST /v1/builds` answered; the base is then the recipe’s.'),
  extras: z
    .array(digest)
    .max(MOST_EXTRAS)
    .optional()
    .describe(
      'Digests that `POST /v1/builds` answered for other recipes on the same base. The last layer of each is put on top, also over the base of a snapshot.',
    ),
  variables: variablesBody.optional(),
  unset: z
    .array(variableName)
    .max(MOST_UNSET)
    .optional()
    .describe(
      'Variables that the base sets and commands do not have. One in `variables` is set all the same.',
    ),
  path: pathList.optional().describe('Directories in front of the PATH.'),
  user: userName.optional(),
  workdir: plainText(4096).optional(),
  sudo: z.boolean().optional(),
  services: z
    .array(service)
    .max(32)
    .refine(
      (list) => new Set(list.map(({ name }) => name)).size === list.length,
      'two services have the same name',
    )
    .optional()
    .describe('Started in this order; each must be ready before the next starts.'),
  start: script
    .optional()
    .describe('A command for /bin/sh that runs at every start, after the services are ready.'),
})

export const resources = z.strictObject({
  memoryMib: z.number().optional(),
  swapMib: z.number().optional(),
  cpus: z.number().optional(),
  pids: z.number().optional(),
  files: z.number().optional(),
  tmpMib: z.number().optional(),
  shmMib: z.number().optional(),
  diskMib: z.number().optional().describe('Space for files, in addition to those of the base or snapshot.'),
  bandwidthBytes: z
    .number()
    .optional()
    .describe('Bytes a second in each direction over the network; no limit if left out.'),
})

export const resourcesView = resources.required().extend({ bandwidthBytes: z.number().optional() })

export const lifetime = z.strictObject({
  ttlMs: z.number().optional(),
  idleMs: z.number().optional(),
  whenOver: z
    .enum(WHEN_OVER)
    .optional()
    .describe(
      'What happens when the time to live is over: destroy the sandbox, pause it with its memory, or stop it and keep its files.',
    ),
  whenIdle: z
    .literal('pause')
    .optional()
    .describe(
      '`pause`: after `idleMs` without use the sandbox is paused, where the provider can, and its time goes on later. If left out, its time ends then.',
    ),
  toDiskAfterMs: z
    .number()
    .optional()
    .describe(
      'How long the sandbox stays paused before its memory is written to disk, where the provider can; never if left out.',
    ),
  autoResume: z
    .boolean()
    .optional()
    .describe('Whether a call into a paused or stopped sandbox, or traffic to one of its ports, wakes it.'),
})

export const providerName = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, 'is not the name of a provider')

export const groupPlace = z.strictObject({
  group: z.string().max(64).describe('The id or name of a group of the caller.'),
  member: z.string().max(253).describe('The name of a place that is free.'),
})

export const createSandbox = z.strictObject({
  name: z.string().optional(),
  provider: providerName
    .optional()
    .describe('The provider that runs the sandbox; `GET /v1/providers` lists them.'),
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .describe('The lowest level of isolation that is accepted; a provider with less is never used.'),
  docker: z
    .boolean()
    .optional()
    .describe('Whether a Docker engine runs inside. Refused at the level `container`.'),
  labels: labels.optional(),
  environment: environment.optional(),
  resources: resources.optional(),
  lifetime: lifetime.optional(),
  ports: z.strictObject({ public: z.boolean() }).optional(),
  network: networkRequest.optional().describe('By default an empty allowlist: no host can be reached.'),
  volumes: volumeRequests.optional(),
  ephemeral: ephemeralDirectories.optional(),
  snapshot: z
    .string()
    .max(64)
    .optional()
    .describe(
      'The id or name of a snapshot to start from. Settings that are left out are those of the snapshot’s sandbox.',
    ),
  memory: z
    .boolean()
    .optional()
    .describe(
      'Whether to continue the processes of the snapshot. By default if it has their memory; `false` starts from its files alone.',
    ),
  place: groupPlace.optional().describe('The place in a group that the sandbox takes.'),
})
export type CreateSandbox = z.input<typeof createSandbox>

export const extendSandbox = z.strictObject({ ttlMs: z.number() })

/** No fields yet. */
export const beginSandbox = z.strictObject({})

export const pauseRequest = z.strictObject({
  toDisk: z
    .boolean()
    .optional()
    .describe(
      'Write the memory to disk and end the processes: the sandbox then takes no memory, and its processes continue even after a reboot. Needs a provider whose level `pause` is `memory`.',
    ),
})

/** For resume and start. */
export const wakeSandbox = z.strictObject({
  ttlMs: z.number().optional().describe('The time to live from now; by default the full time again.'),
})

export const forkSandbox = z.strictObject({
  count: z.number().optional().describe('How many forks; 1 by default.'),
  name: z.string().optional().describe('With more than one fork, each gets a number as suffix.'),
  memory: z
    .boolean()
    .optional()
    .describe('Each fork continues the running processes. Needs a provider whose snapshots are `memory`.'),
  labels: labels.optional(),
  lifetime: lifetime.optional(),
  resources: resources.optional(),
  volumes: volumeRequests
    .optional()
    .describe(
      'Volumes for each fork. Without this a fork has an empty directory where its original has one.',
    ),
})
export type ForkSandbox = z.infer<typeof forkSandbox>

const limit = z.object({ level: z.enum(['enforced', 'soft', 'none']), reason: z.string().optional() })

export const sandbox = z.object({
  id: z.string(),
  name: z.string().nullable(),
  state: z.enum(STATES),
  provider: z.string(),
  isolation: z.enum(ISOLATIONS).describe('How the sandbox is isolated from its host.'),
  labels: z.record(z.string(), z.string()),
  base: z.enum(BASES),
  image: z.string().optional().describe('For the base `image`: its reference.'),
  environment: z.string().optional().describe('The digest of the built environment it started with.'),
  services: z.array(z.string()).optional(),
  user: z.string(),
  workdir: z.string(),
  sudo: z.boolean(),
  resources: resourcesView,
  limits: z
    .object({ memory: limit, swap: limit, cpus: limit, pids: limit, files: limit, disk: limit })
    .nullable(),
  network: sandboxNetwork,
  volumes: z.array(mountedVolume).optional().describe('The volumes that it mounts.'),
  ephemeral: z
    .array(z.object({ path: z.string(), sizeMib: z.number().optional() }))
    .optional()
    .describe('Directories that are never kept.'),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
  deadlineAt: z.string(),
  lifetime: lifetime.required({ ttlMs: true, idleMs: true, whenOver: true, autoResume: true }),
  idleMs: z.number().describe('The same as in `lifetime`.'),
  snapshotId: z
    .string()
    .nullable()
    .describe(
      'The snapshot whose files it last had: the one it was created from, or the newest taken of it.',
    ),
  forkedFrom: z.string().nullable().describe('The sandbox it is a fork of.'),
  pausedAt: z.string().optional().describe('Since when it is paused.'),
  pausedIn: z
    .enum(['memory', 'disk'])
    .optional()
    .describe('Where the memory of a paused sandbox is. Only on disk does it survive a reboot.'),
  savedBytes: z.number().optional().describe('The size of its memory on disk.'),
  endedAt: z.string().nullable(),
  ending: z.object({ code: z.string(), reason: z.string(), message: z.string() }).nullable(),
})
export type SandboxView = z.infer<typeof sandbox>

/** Each fork succeeds or fails on its own. */
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
  network: netCountsView,
})
export type StatsView = z.infer<typeof stats>

export const changesView = z.object({
  snapshot: z.string().nullable().describe('The snapshot that the sandbox was created from.'),
  paths: z
    .array(z.string())
    .nullable()
    .describe(
      'Relative to the directory. A file that is not listed, nor in a listed directory, is as in the snapshot. Null if that is not known, or is too much to list.',
    ),
})
export type ChangesView = z.infer<typeof changesView>

export const previewView = z.object({ url: z.string(), openUrl: z.string().nullable() })
export type PreviewView = z.infer<typeof previewView>

export const event = z.object({
  seq: z.number(),
  at: z.string(),
  type: z.string(),
  data: z.record(z.string(), z.unknown()),
})
export type EventView = z.infer<typeof event>

/** An event in a list that covers several sandboxes. */
export const sandboxEvent = event.extend({ sandboxId: z.string() })
export type SandboxEventView = z.infer<typeof sandboxEvent>
