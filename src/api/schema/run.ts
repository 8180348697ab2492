/** Requests and answers of `/v1/runs`. Unknown keys are errors. */
import * as z from 'zod'
import { DECISIONS, PERMISSION_KINDS } from '../../core/permission.ts'
import { OUTCOMES, RUN_STATES, TOOL_KINDS } from '../../core/run.ts'
import { networkRequest } from './network.ts'
import { environment, groupPlace, resources, variablesBody } from './sandbox.ts'
import { absolutePath, textLine, withoutNul } from './text.ts'
import { volumeRequests } from './volume.ts'

const word = z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'may contain lower-case letters, digits and -')
const objectId = z.string().regex(/^[0-9a-f]{40}$/, 'must be the id of a git object')
/** SECURITY: a path below the user's home directory inside the sandbox, never outside of it. */
const below = withoutNul(1024).regex(
  /^(?!\/)(?!(?:.*\/)?\.\.?(?:\/|$))[^\0]+$/,
  'must be a path below the home directory',
)

const LONGEST_PROMPT = 256 * 1024
const DAY_MS = 24 * 3_600_000

export const permissions = z.strictObject(
  Object.fromEntries(
    PERMISSION_KINDS.map((kind) => [
      kind,
      z
        .array(z.strictObject({ pattern: textLine(500), decision: z.enum(DECISIONS) }))
        .max(64)
        .default(kind === 'network' ? [{ pattern: '*', decision: 'ask' }] : []),
    ]),
  ) as Record<
    (typeof PERMISSION_KINDS)[number],
    z.ZodDefault<
      z.ZodArray<
        z.ZodObject<{
          pattern: z.ZodString
          decision: z.ZodEnum<{ deny: 'deny'; ask: 'ask'; allow: 'allow' }>
        }>
      >
    >
  >,
)

const timeMs = z
  .int()
  .min(1000)
  .max(7 * DAY_MS)
const costUsd = z.number().min(0).max(1_000_000)
const limits = z.strictObject({
  timeMs: timeMs.default(3_600_000).describe('The limit of one turn.'),
  costUsd: costUsd.optional().describe('The limit of the whole run; no limit by default.'),
  answerMs: z
    .int()
    .min(0)
    .max(DAY_MS)
    .default(5 * 60_000)
    .describe('How long a question waits before it is denied.'),
})

const newLimits = z.strictObject({
  timeMs: timeMs.optional(),
  costUsd: costUsd.optional().describe('The limit of the whole run, including what it has used already.'),
})

const project = z.strictObject({
  workspace: absolutePath,
  directory: z
    .union([below, z.literal('')])
    .optional()
    .describe('The directory below the workspace where the agent starts.'),
  name: textLine(200),
  key: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits'),
  commit: objectId.optional(),
  tree: objectId,
  aside: z.array(withoutNul(4096)).max(256).default([]),
})

export const createRun = z.strictObject({
  agent: word.describe('The name of an agent, like `claude`.'),
  prompt: withoutNul(LONGEST_PROMPT),
  model: textLine(200).optional(),
  group: word.optional().describe('Runs of one group are compared with each other.'),
  number: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(1)
    .describe('The lowest number to use. With a project, the next free number among the agent’s runs there.'),
  snapshot: z
    .string()
    .max(64)
    .optional()
    .describe('A snapshot that contains the project; an empty sandbox by default.'),
  environment: environment.optional(),
  resources: resources.optional(),
  docker: z.boolean().optional().describe('Whether a Docker engine runs inside.'),
  network: networkRequest.optional(),
  volumes: volumeRequests.optional(),
  place: groupPlace.optional().describe('The place in a group that its sandbox takes.'),
  credential: z
    .string()
    .regex(/^[A-Z_][A-Z0-9_]{0,127}$/)
    .optional()
    .describe('The variable that holds the model’s key, like `ANTHROPIC_API_KEY`.'),
  baseUrl: textLine(2048)
    .regex(/^https?:\/\/[^\s]+$/, 'must be a URL')
    .optional()
    .describe('The URL of a model gateway.'),
  secret: z.string().max(64).optional().describe('The secret that holds the model’s key.'),
  files: z
    .array(z.strictObject({ path: below, content: withoutNul(1024 * 1024) }))
    .max(32)
    .default([])
    .describe('Files to write below the home directory before the agent starts.'),
  mcpServers: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'may contain letters, digits, _ and -'),
        command: withoutNul(4096).min(1),
        args: z
          .array(withoutNul(16 * 1024))
          .max(256)
          .default([]),
        env: variablesBody.default({}),
      }),
    )
    .max(32)
    .default([]),
  command: z
    .array(withoutNul(16 * 1024))
    .max(256)
    .default([])
    .describe('The command of the agent `custom`.'),
  permissions: permissions.default({
    bash: [],
    write: [],
    mcp: [],
    network: [{ pattern: '*', decision: 'ask' }],
  }),
  limits: limits.default({ timeMs: 3_600_000, answerMs: 5 * 60_000 }),
  project: project
    .optional()
    .describe('The project that the result is compared with; without it there is no result.'),
  keepMs: z
    .int()
    .min(0)
    .max(30 * DAY_MS)
    .default(7 * DAY_MS)
    .describe('How long the sandbox is kept for follow-ups after the run has ended.'),
})
export type CreateRun = z.input<typeof createRun>

export const sendRun = z.strictObject({
  text: withoutNul(LONGEST_PROMPT).min(1),
  limits: newLimits
    .optional()
    .describe('New limits; those left out stay. A time limit applies to turns that have not started.'),
})
export type SendRun = z.input<typeof sendRun>
export const answerRun = z.strictObject({ answer: z.enum(['allow', 'deny']) })
/** No fields. */
export const nothing = z.strictObject({})

const tokens = { input: z.number(), cached: z.number(), output: z.number() } as const

const usage = z.object({
  ...tokens,
  requests: z.number(),
  costUsd: z.number().nullable().describe('Null if a price is unknown.'),
  source: z
    .enum(['wire', 'agent', 'none'])
    .describe('Counted by the egress process (`wire`) or reported by the agent.'),
  models: z.record(z.string(), z.object({ ...tokens, costUsd: z.number().nullable() })),
})
export type UsageOfRunView = z.infer<typeof usage>

export const run = z.object({
  id: z.string(),
  group: z.string().nullable(),
  agent: z.string(),
  number: z.number(),
  turn: z.number(),
  model: z.string().nullable(),
  prompt: z.string(),
  state: z.enum(RUN_STATES),
  outcome: z.enum(OUTCOMES).nullable(),
  reason: z.string().nullable(),
  sandboxId: z.string().nullable(),
  project: z
    .object({
      workspace: z.string(),
      name: z.string(),
      key: z.string(),
      commit: z.string().nullable(),
      tree: z.string(),
    })
    .nullable(),
  result: z
    .object({
      tree: z.string(),
      packBytes: z.number(),
      tooLarge: z.array(z.object({ path: z.string(), sizeBytes: z.number() })),
      leftOut: z.array(z.string()),
      commits: z.array(z.string()),
      submodules: z.array(z.string()),
    })
    .nullable(),
  usage,
  denials: z.number(),
  limits: z.object({ timeMs: z.number(), costUsd: z.number().nullable(), answerMs: z.number() }),
  createdAt: z.string(),
  endedAt: z.string().nullable(),
  keptUntil: z.string().nullable(),
})
export type RunView = z.infer<typeof run>

const about = z.object({ kind: z.enum(PERMISSION_KINDS), subject: z.string(), title: z.string() })

const body = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('state'),
    state: z.enum(RUN_STATES),
    outcome: z.enum(OUTCOMES).optional(),
    reason: z.string().optional(),
  }),
  z.object({
    type: z.literal('message'),
    from: z.enum(['agent', 'user']),
    message: z.string().describe('Parts of one message have the same id.'),
    text: z.string(),
  }),
  z.object({ type: z.literal('thought'), message: z.string(), text: z.string() }),
  z.object({
    type: z.literal('plan'),
    entries: z.array(z.object({ text: z.string(), status: z.enum(['pending', 'doing', 'done']) })),
  }),
  z.object({
    type: z.literal('tool'),
    tool: z.string(),
    kind: z.enum(TOOL_KINDS),
    title: z.string(),
    status: z.enum(['started', 'running', 'done', 'failed']),
    output: z.string().optional(),
  }),
  z.object({ type: z.literal('edit'), path: z.string(), added: z.number(), removed: z.number() }),
  z.object({
    type: z.literal('command'),
    command: z.string(),
    exitCode: z.number().optional(),
    output: z.string().optional(),
  }),
  z.object({ type: z.literal('permission.asked'), permission: z.string(), about }),
  z.object({
    type: z.literal('permission.answered'),
    permission: z.string(),
    about,
    answer: z.enum(['allow', 'deny']),
    by: z.enum(['rule', 'user', 'timeout']),
  }),
  z.object({
    type: z.literal('network.denied'),
    host: z.string(),
    port: z.number(),
    reason: z.string(),
    count: z.number(),
  }),
  z.object({ type: z.literal('usage'), usage }),
  z.object({ type: z.literal('note'), text: z.string() }),
  z.object({ type: z.literal('error'), text: z.string() }),
])
export type RunEventBodyView = z.infer<typeof body>

export const runEvent = z.object({ seq: z.number(), at: z.string(), body })
export type RunEventView = z.infer<typeof runEvent>

export const takenOver = z.object({
  sandboxId: z.string(),
  user: z.string(),
  workdir: z.string(),
  command: z.array(z.string()).nullable().describe('Null if the agent has no terminal interface.'),
  variables: z.record(z.string(), z.string()),
})
export type TakenOverView = z.infer<typeof takenOver>
