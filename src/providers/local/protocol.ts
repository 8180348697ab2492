/**
 * Parses podhost's answers, so that a podhost of another version is detected here and not three calls later.
 */
import * as z from 'zod'
import type { Check } from '../../core/capability.ts'
import { AgentPodError } from '../../core/error.ts'
import { isSnapshotId, parseSnapshotId, type SnapshotId } from '../../core/id.ts'
import type { NetworkLevel } from '../../core/network.ts'
import type {
  ChangesSince,
  HostStats,
  Observed,
  Packed,
  StoredSnapshot,
  StoredVolume,
  VolumeStats,
} from '../../core/provider.ts'
import type { LimitLevels } from '../../core/resources.ts'

const count = z.number().nonnegative()

const limit = z.object({ level: z.enum(['enforced', 'soft', 'none']), reason: z.string().optional() })
const limits = z.object({ memory: limit, swap: limit, cpus: limit, pids: limit, files: limit, disk: limit })

/** A program that sandboxes of another runtime need. An earlier podhost does not know it. */
const program = z
  .object({
    available: z.boolean(),
    release: z.string().optional(),
    reason: z.string().optional(),
    hint: z.string().optional(),
  })
  .default({ available: false, reason: 'an earlier podhost serves' })

const hello = z.object({
  version: z.string(),
  protocol: z.literal(1),
  rootless: z.boolean(),
  cgroup: z.enum(['v1', 'v2', 'none']),
  controllers: z.array(z.string()),
  idmap: z.boolean(),
  freezer: z.enum(['cgroup', 'signals']),
  network: z
    .object({ level: z.enum(['transparent', 'proxy', 'none']), reason: z.string().optional() })
    .default({ level: 'none' }),
  ids: z
    .object({ own: z.boolean(), reason: z.string().optional() })
    .default({ own: false, reason: 'an earlier podhost serves' }),
  gvisor: program,
  qemu: program,
  // An earlier podhost has none.
  volumes: z.boolean().default(false),
  rootMounts: z.boolean().default(false),
  pool: z.object({
    available: z.boolean().default(true),
    kind: z.enum(['btrfs', 'loop', 'copy']),
    quotas: z.boolean(),
    sizeBytes: count,
    freeBytes: count,
    reserveBytes: count,
    reason: z.string().optional(),
  }),
})
export type HostInfo = z.infer<typeof hello>

/** Empty for the kernel of this machine. An earlier podhost has no other. */
const runtime = z
  .string()
  .regex(/^[a-z]{0,16}$/)
  .default('')

const network = z.object({
  level: z.enum(['transparent', 'proxy', 'none']),
  reason: z.string().optional(),
})

const created = z.object({
  socket: z.string(),
  out: z.string().default(''),
  network: network.default({ level: 'none' }),
  limits,
  env: z.record(z.string(), z.string()),
})

const sandbox = z.object({
  id: z.string().default(''),
  owner: z.string().default(''),
  state: z.enum(['running', 'paused', 'stopped', 'exited', 'absent']),
  socket: z.string().default(''),
  out: z.string().default(''),
  deadlineMs: count.default(0),
  oomKilled: z.boolean().default(false),
  expired: z.boolean().default(false),
  savedBytes: count.default(0),
  runtime,
})

const over = z
  .array(z.custom<SnapshotId>((id) => typeof id === 'string' && isSnapshotId(id), 'is no id of a snapshot'))
  .optional()
const root = z.union([
  z.object({ kind: z.literal('host'), over }),
  z.object({ kind: z.literal('layers'), layers: z.array(z.string()), over }),
])
const kept = z.object({ sizeBytes: count, root, memoryBytes: count.optional() })
const packed = z.object({ digest: z.string(), sizeBytes: count })

const stats = z.object({
  cpuMs: count,
  memBytes: count,
  memPeakBytes: count,
  memLimitBytes: count,
  pids: count,
  pidsLimit: count,
  oomKills: count,
  diskBytes: count,
})

const probe = z.object({
  checks: z.array(
    z.object({
      name: z.string(),
      ok: z.boolean(),
      required: z.boolean(),
      detail: z.string(),
      hint: z.string().optional(),
    }),
  ),
})

export const parseHello = (value: unknown): HostInfo => parse(hello, value)
export const parseSandboxStats = (value: unknown): HostStats => parse(stats, value)
export const parseSaved = (value: unknown): { savedBytes: number } =>
  parse(z.object({ savedBytes: count }), value)
export const parseKept = (value: unknown): StoredSnapshot => parse(kept, value)
export const parsePacked = (value: unknown): Omit<Packed, 'content'> => parse(packed, value)
export const parseProbe = (value: unknown): readonly Check[] => parse(probe, value).checks

export function parseCreated(value: unknown): {
  socket: string
  out: string
  network: NetworkLevel
  limits: LimitLevels
  env: Record<string, string>
} {
  return parse(created, value)
}

export interface FoundSandbox {
  readonly id: string
  readonly owner: string
  readonly socket: string
  readonly out: string
  readonly runtime: string
  readonly observed: Observed
}

export function parseSandboxEntry(value: unknown): FoundSandbox {
  const { id, owner, socket, out, runtime, state, deadlineMs, oomKilled, expired, savedBytes } = parse(
    sandbox,
    value,
  )
  const observed: Observed =
    state === 'running'
      ? { state, deadlineAt: deadlineMs }
      : state === 'exited'
        ? { state, oomKilled, expired }
        : state === 'paused' && savedBytes > 0
          ? { state, savedBytes }
          : { state }
  return { id, owner, socket, out, runtime, observed }
}

const page = z.object({ sandboxes: z.array(z.unknown()), next: z.string() })

export function parsePage(value: unknown): { sandboxes: FoundSandbox[]; next: string } {
  const { sandboxes, next } = parse(page, value)
  return { sandboxes: sandboxes.map(parseSandboxEntry), next }
}

const album = z.object({
  snapshots: z.array(z.object({ id: z.string(), owner: z.string(), runtime })),
  next: z.string(),
})

export function parseAlbum(value: unknown): z.infer<typeof album> {
  return parse(album, value)
}

const volumePage = z.object({
  volumes: z.array(z.object({ id: z.string(), owner: z.string() })),
  next: z.string(),
})

export function parseVolumePage(value: unknown): z.infer<typeof volumePage> {
  return parse(volumePage, value)
}

export const parseStoredVolume = (value: unknown): StoredVolume => parse(z.object({ limit }), value)
export const parseVolumeStats = (value: unknown): VolumeStats => parse(z.object({ usedBytes: count }), value)

const changes = z.object({ known: z.boolean(), snapshot: z.string(), paths: z.array(z.string()) })

export function parseSandboxChanges(value: unknown): ChangesSince | undefined {
  const { known, snapshot, paths } = parse(changes, value)
  return known ? { snapshot: parseSnapshotId(snapshot), paths } : undefined
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new AgentPodError({
    code: 'internal',
    reason: 'podhost.protocol',
    message: `podhost sent an answer that this version does not understand: ${result.error.issues[0]?.path.join('.')} ${result.error.issues[0]?.message}`,
    hint: 'stop the server and podhost (`agentpod server stop`), then try again',
  })
}
