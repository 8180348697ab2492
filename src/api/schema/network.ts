/** What a sandbox may reach, as requests ask for it and answers show it. Hosts, methods and paths are checked by the policy. */
import { z } from 'zod'
import { INTERCEPTIONS, NETWORK_MODES } from '../../core/network.ts'

const MOST = 512

export const budget = z.strictObject({
  bytes: z.int().min(1).optional(),
  requestsPerMinute: z.int().min(1).optional(),
})

const source = z.union([
  z.enum(['create', 'live', 'user', 'project']),
  z.templateLiteral(['preset ', z.string().regex(/^[a-z0-9-]{1,32}$/)]),
])

const ruleFields = {
  host: z.string().max(255).describe('A name, or `*.` and a name for everything below it.'),
  ports: z.array(z.int().min(1).max(65_535)).min(1).max(64).optional().describe('80 and 443 when left out.'),
  methods: z.array(z.string().max(32)).min(1).max(16).optional(),
  paths: z
    .array(z.string().max(2048))
    .min(1)
    .max(16)
    .optional()
    .describe('Patterns: `*` is one segment, `**` any number.'),
  private: z.boolean().optional().describe('Whether the name may lead to a private address.'),
  budget: budget.optional(),
} as const

/** A rule in parts, as recipes have them. */
export const ruleParts = z.strictObject({
  ...ruleFields,
  source: source.default('create'),
  within: z.strictObject({ ...ruleFields, source }).optional(),
})

/** As short text, `example.com:8443/api/**`, or in parts. */
const ruleRequest = z.union([
  z.string().max(2400),
  z.strictObject({
    ...ruleFields,
    source: source.optional().describe('Where the rule comes from, for people.'),
    within: z
      .strictObject({ ...ruleFields, source })
      .optional()
      .describe('The grant that it is cut from, whose budget is one for all that are.'),
  }),
])
const rules = z.array(ruleRequest).max(MOST)

const mode = z
  .enum(NETWORK_MODES)
  .describe(
    '`off`: nothing. `allowlist`: what rules allow. `open`: the public internet, but never private or metadata addresses.',
  )

const addresses = z.array(z.string().max(64)).max(MOST)

export const networkRequest = z.strictObject({
  mode: mode.optional(),
  allow: rules.optional(),
  deny: rules.optional().describe('Goes before what is allowed, where both speak of the same.'),
  secrets: z
    .array(z.string().max(64))
    .max(64)
    .optional()
    .describe('Names of secrets; the sandbox gets a placeholder for each.'),
  intercept: z
    .enum(INTERCEPTIONS)
    .optional()
    .describe('Which TLS is opened on the way: where rules on requests or secrets need it, or all of it.'),
  addresses: z
    .strictObject({
      allowed: addresses.default([]),
      denied: addresses.default([]),
      named: addresses.optional().describe('Single servers, like `10.0.0.5:8443`; they may be private.'),
    })
    .optional()
    .describe(
      'CIDR blocks or addresses, checked after names are resolved. Private ones are opened by `named` alone.',
    ),
})

export const changeNetwork = z.strictObject({
  mode: mode.optional(),
  allow: rules.optional(),
  deny: rules.optional(),
  forget: z.array(z.string().max(255)).max(MOST).optional().describe('Hosts whose rules are taken back.'),
})

export type NetworkChange = z.input<typeof changeNetwork>

export const explainRequest = z.strictObject({
  url: z.string().max(4096).describe('`https://host:port/path`, or `host:port`.'),
  method: z.string().max(32).optional(),
})

const rule = z.object({ ...ruleFields, source: z.string(), within: z.unknown().optional() })
export const netCounts = z.object({
  connections: z.number(),
  open: z.number(),
  allowed: z.number(),
  denied: z.number(),
  failed: z.number(),
  bytesIn: z.number().describe('Into the sandbox.'),
  bytesOut: z.number().describe('Out of it.'),
})

const level = z
  .enum(['transparent', 'proxy', 'native', 'none'])
  .describe('How connections get out: redirected, through the proxy alone, or not at all.')

/** In a sandbox's record. */
export const sandboxNetwork = z.object({
  mode: z.enum(NETWORK_MODES),
  level,
  reason: z.string().nullable(),
  secrets: z.array(z.string()),
})

export const network = sandboxNetwork.extend({
  intercept: z.enum(INTERCEPTIONS),
  rules: z.array(rule),
  denied: z.array(rule),
  named: z.array(z.string()).describe('Single servers that may be reached by their address.'),
  counts: netCounts,
})
export type NetworkView = z.infer<typeof network>

export const explained = z.object({
  allowed: z.boolean(),
  reason: z.string(),
  rule: z.string().nullable(),
  message: z.string(),
  hint: z.string(),
  text: z.string(),
})
export type ExplainedView = z.infer<typeof explained>
