/**
 * Requests of E2B's clients. As at E2B, unknown keys are ignored, so that newer SDKs still work; known keys
 * are checked for type and size.
 */
import * as z from 'zod'
import { MOST_VOLUMES } from '../../core/volume/volume.ts'

const MOST_METADATA = 64
const MOST_VARIABLES = 1024
/** Labels with this prefix are AgentPod's own: values of E2B's API that have no other place in a record. */
export const RESERVED = 'agentpod/'

const text = (most: number): z.ZodString =>
  z
    .string()
    .max(most, `has more than ${most} characters`)
    .refine((value) => !value.includes('\0'), 'contains a NUL byte') as z.ZodString

export const metadata = z
  .record(
    text(256)
      .min(1, 'a metadata key must not be empty')
      .refine((key) => !key.startsWith(RESERVED), `keys under ${RESERVED} are reserved`),
    text(4096),
  )
  .refine((map) => Object.keys(map).length <= MOST_METADATA, `at most ${MOST_METADATA} entries`)

const envVars = z
  .record(
    text(256).regex(/^[^=]+$/, 'the name of a variable must not be empty or contain ='),
    text(128 * 1024),
  )
  .refine((map) => Object.keys(map).length <= MOST_VARIABLES, `at most ${MOST_VARIABLES} variables`)

/** Seconds. The engine checks the maximum. */
const seconds = z.number().int('must be a whole number of seconds').min(0, 'must not be negative').max(1e9)

const strings = z.array(text(255)).max(512).nullish()

const network = z.object({
  allowPublicTraffic: z.boolean().nullish(),
  allowOut: strings,
  denyOut: strings,
  // SECURITY: becomes a header of requests into the sandbox.
  maskRequestHost: z
    .string()
    .max(255)
    .regex(
      /^(?:(?:[A-Za-z0-9.-]|\$\{PORT\})+(?::(?:\d{1,5}|\$\{PORT\}))?)?$/,
      'must be a host, with or without a port',
    )
    .nullish(),
  httpsPorts: z.array(z.unknown()).nullish(),
  rules: z
    .record(
      text(255),
      z.array(
        z.object({
          transform: z.object({ headers: z.record(text(128), text(8192)).nullish() }).nullish(),
        }),
      ),
    )
    .nullish(),
  egressProxy: z.unknown().optional(),
})
export type Network = z.infer<typeof network>

/** Replaces the whole network policy. */
export const updateNetwork = network.extend({ allow_internet_access: z.boolean().nullish() })

export const newSandbox = z.object({
  templateID: text(256).nullish(),
  timeout: seconds.nullish(),
  metadata: metadata.nullish(),
  envVars: envVars.nullish(),
  autoPause: z.boolean().nullish(),
  autoPauseMemory: z.boolean().nullish(),
  autoResume: z.object({ enabled: z.boolean().nullish() }).nullish(),
  allow_internet_access: z.boolean().nullish(),
  network: network.nullish(),
  volumeMounts: z
    .array(z.object({ name: text(128), path: text(1024) }))
    .max(MOST_VOLUMES)
    .nullish(),
  mcp: z.unknown().optional(),
  iam: z.object({ tokens: z.record(z.string(), z.unknown()).nullish() }).nullish(),
})
export type NewSandboxBody = z.infer<typeof newSandbox>

/** Two requests with the same key create one sandbox. */
export const requestKey = z.string().min(1).max(255).optional()

/** `memory: false` drops the memory; the sandbox boots from its files. */
export const connectSandbox = z.object({ timeout: seconds.nullish(), memory: z.boolean().nullish() })
export const pauseSandbox = z.object({ memory: z.boolean().nullish() })
export const forkBody = z.object({ count: z.number().nullish(), timeout: seconds.nullish() })
export const snapshotSandbox = z.object({ name: text(256).nullish() })
export const sandboxTimeout = z.object({ timeout: seconds })
export const sandboxRefresh = z.object({ duration: seconds.max(3600).nullish() })

/** Numbers in a query come as text. */
const count = (most: number): z.ZodType<number | undefined> =>
  z.coerce.number().int().min(1).max(most).optional() as never
const unixTime = z.coerce.number().int().min(0).optional()

const STATES = ['running', 'paused'] as const

/** `running,paused`; a repeated parameter arrives joined by commas. */
const states = z
  .string()
  .transform((list) => list.split(',').filter((state) => state !== ''))
  .pipe(z.array(z.enum(STATES)))
  .optional()

export const listQuery = z.object({
  metadata: z.string().max(65_536).optional(),
  state: states,
  startedAfter: z.iso.datetime({ offset: true }).optional(),
  template: z.string().max(256).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  limit: count(100),
  nextToken: z.string().max(256).optional(),
})
export type ListQuery = z.infer<typeof listQuery>

export const snapshotsQuery = z.object({
  sandboxID: z.string().max(256).optional(),
  name: z.string().max(256).optional(),
  limit: count(100),
  nextToken: z.string().max(256).optional(),
})

export type SnapshotsQuery = z.infer<typeof snapshotsQuery>

export const logsQuery = z.object({
  start: unixTime,
  cursor: unixTime,
  limit: count(1000),
  direction: z.enum(['forward', 'backward']).optional(),
  level: z.enum(['debug', 'info', 'warn', 'error']).optional(),
  search: z.string().max(256).optional(),
})
export type LogsQuery = z.infer<typeof logsQuery>

export const metricsQuery = z.object({ start: unixTime, end: unixTime })

export const manyMetricsQuery = z.object({
  sandbox_ids: z
    .string()
    .max(16_384)
    .transform((list) => list.split(',').filter((id) => id !== ''))
    .pipe(z.array(z.string()).max(100)),
})

export const newVolume = z.object({ name: text(128) })

/** Numbers and booleans in a query come as text. */
const id = z.coerce.number().int().min(0).max(65_535)
const fileMode = z.coerce.number().int().min(0).max(0o177777)
const flag = z.enum(['true', 'false']).transform((word) => word === 'true')

export const volumePathQuery = z.object({ path: text(4096) })
export const volumeListQuery = volumePathQuery.extend({
  depth: z.coerce.number().int().min(1).max(64).default(1),
})
export const volumeEntryQuery = volumePathQuery.extend({
  uid: id.optional(),
  gid: id.optional(),
  mode: fileMode.optional(),
  force: flag.optional(),
})
export const volumeMetadata = z.object({
  uid: id.nullish(),
  gid: id.nullish(),
  mode: fileMode.nullish(),
})
