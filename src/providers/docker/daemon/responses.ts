/** Schemas for the parts of the daemon's answers that are used. Other parts are ignored. */
import * as z from 'zod'

const LABELS = z
  .record(z.string(), z.string())
  .nullish()
  .transform((labels) => labels ?? {})
const WORDS = z
  .array(z.string())
  .nullish()
  .transform((words) => words ?? [])

export const INFO = z.looseObject({
  ServerVersion: z.string(),
  OSType: z.string(),
  Architecture: z.string(),
  Driver: z.string(),
  DriverStatus: z
    .array(z.tuple([z.string(), z.string()]))
    .nullish()
    .transform((pairs) => pairs ?? []),
  CgroupVersion: z.string().optional(),
  MemoryLimit: z.boolean().default(false),
  SwapLimit: z.boolean().default(false),
  CpuCfsQuota: z.boolean().default(false),
  CPUCfsQuota: z.boolean().optional(),
  PidsLimit: z.boolean().default(false),
  SecurityOptions: WORDS,
  Isolation: z.string().optional(),
  DefaultRuntime: z.string().optional(),
})
export type Info = z.infer<typeof INFO>

export const CONTAINER = z.looseObject({
  Id: z.string(),
  Name: z.string(),
  Image: z.string(),
  State: z.looseObject({
    Status: z.string(),
    Running: z.boolean(),
    Paused: z.boolean(),
    OOMKilled: z.boolean(),
    ExitCode: z.number(),
  }),
  Config: z.looseObject({ Labels: LABELS, Env: WORDS }),
  SizeRw: z.number().optional(),
})
export type Container = z.infer<typeof CONTAINER>

export const CONTAINERS = z.array(
  z.looseObject({
    Id: z.string(),
    Names: WORDS,
    ImageID: z.string(),
    State: z.string(),
    Status: z.string(),
    Labels: LABELS,
  }),
)
export type ContainerRow = z.infer<typeof CONTAINERS>[number]

export const MADE = z.looseObject({ Id: z.string() })
export const ENDED = z.looseObject({ StatusCode: z.number() })

export const IMAGE = z.looseObject({
  Id: z.string(),
  RepoTags: WORDS,
  RepoDigests: WORDS,
  Size: z.number(),
  Architecture: z.string(),
  Os: z.string(),
  RootFS: z.looseObject({ Layers: WORDS }),
  Config: z
    .looseObject({
      Env: WORDS,
      User: z.string().nullish(),
      WorkingDir: z.string().nullish(),
      Labels: LABELS,
      Volumes: z.record(z.string(), z.unknown()).nullish(),
    })
    .nullish(),
})

export const IMAGES = z.array(z.looseObject({ Id: z.string(), RepoTags: WORDS, Labels: LABELS }))
export const VOLUMES = z.looseObject({
  Volumes: z
    .array(z.looseObject({ Name: z.string(), Labels: LABELS }))
    .nullish()
    .transform((volumes) => volumes ?? []),
})

const COUNT = z.number().nonnegative().optional()
export const STATS = z.looseObject({
  cpu_stats: z.looseObject({ cpu_usage: z.looseObject({ total_usage: COUNT }).optional() }).optional(),
  memory_stats: z
    .looseObject({
      usage: COUNT,
      max_usage: COUNT,
      limit: COUNT,
      stats: z.record(z.string(), z.number()).optional(),
    })
    .optional(),
  pids_stats: z.looseObject({ current: COUNT, limit: COUNT }).optional(),
})

/** One line of progress. */
export const PROGRESS = z.looseObject({
  status: z.string().optional(),
  stream: z.string().optional(),
  id: z.string().optional(),
  progress: z.string().optional(),
  error: z.string().optional(),
})

export const EVENT = z.looseObject({
  Action: z.string(),
  time: z.number().optional(),
  Actor: z.looseObject({ ID: z.string(), Attributes: LABELS }),
})
