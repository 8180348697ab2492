/**
 * Parses requests of the server. SECURITY: LK-16. An `open` contains secrets, so an error never quotes the
 * message.
 */
import * as z from 'zod'
import { invalid } from '../../core/error.ts'
import { INTERCEPTIONS, NETWORK_MODES } from '../../core/network.ts'
import type { HostPattern, Rule } from '../../policy/rule.ts'
import type { LinkSpec } from './link-spec.ts'

const budget = z.strictObject({ bytes: z.int().optional(), requestsPerMinute: z.int().optional() })
const words = z.array(z.string()).readonly()
const ruleShape = {
  host: z.string().transform((text) => text as HostPattern),
  ports: z.union([z.array(z.int()).readonly(), z.literal('any')]),
  methods: words.optional(),
  paths: words.optional(),
  isPrivate: z.boolean(),
  budget: budget.optional(),
  source: z.string().transform((text) => text as Rule['source']),
}
const rule: z.ZodType<Rule> = z.lazy(() => z.strictObject({ ...ruleShape, within: rule.optional() }))
const policy = z.strictObject({
  mode: z.enum(NETWORK_MODES),
  rules: z.array(rule).readonly(),
  denied: z.array(rule).readonly(),
  addresses: z.strictObject({ allowed: words, denied: words, named: words.optional() }).optional(),
  members: words.optional(),
})
const scheme = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('bare') }),
  z.strictObject({ kind: z.literal('prefix'), prefix: z.string() }),
  z.strictObject({ kind: z.literal('basic'), user: z.string() }),
])
const slot = z.strictObject({
  hosts: words,
  port: z.int(),
  header: z.string(),
  scheme,
  methods: words.optional(),
  paths: words.optional(),
  budget: budget.optional(),
})
const secret = z.strictObject({ name: z.string(), placeholder: z.string(), value: z.string(), slot })
const sandbox = z.string().min(1).max(128)
const socket = z.string().min(1).max(4096)
const linkSpec: z.ZodType<LinkSpec> = z.strictObject({
  sandbox,
  socket,
  policy,
  secrets: z.array(secret).readonly(),
  authority: z.strictObject({ cert: z.string(), key: z.string() }).optional(),
  intercept: z.enum(INTERCEPTIONS),
  headers: z
    .array(z.strictObject({ host: z.string(), headers: z.record(z.string(), z.string()) }))
    .readonly()
    .optional(),
  memberSocket: socket.optional(),
  bandwidthBytes: z.int().min(1).optional(),
  cache: z.boolean().optional(),
  meter: z.boolean().optional(),
})
const nothing = z.strictObject({})
const one = z.strictObject({ sandbox })
const carried = z.strictObject({ sandbox, socket })
const message = z.strictObject({
  v: z.literal(1).optional(),
  id: z.int(),
  op: z.string(),
  args: z.unknown().optional(),
})

export interface ControlMessage {
  readonly id: number
  readonly op: string
  readonly args: unknown
}

/** Throws if the line is not a message. */
export function parseMessage(line: string): ControlMessage {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw invalid('control.malformed', 'a line is not JSON')
  }
  const { id, op, args = {} } = parse(message, value)
  return { id, op, args }
}

export const parseNothing = (args: unknown): Record<string, never> => parse(nothing, args)
export const parseSandbox = (args: unknown): string => parse(one, args).sandbox
export const parseCarried = (args: unknown): { sandbox: string; socket: string } => parse(carried, args)
export const parseLinkSpec = (args: unknown): LinkSpec => parse(linkSpec, args)

/** The error names the position, not the value. */
function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const at = result.error.issues[0]?.path.filter((part) => typeof part !== 'symbol').join('.') ?? ''
  throw invalid('control.malformed', `${at || 'the message'} does not follow the protocol`)
}
