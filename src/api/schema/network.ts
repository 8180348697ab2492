/** Network policies in requests and answers. The policy code checks hosts, methods and paths. */
import * as z from 'zod'
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
  host: z.string().max(255).describe('A host name, or `*.` and a name for all its subdomains.'),
  ports: z.array(z.int().min(1).max(65_535)).min(1).max(64).optional().describe('80 and 443 by default.'),
  methods: z.array(z.string().max(32)).min(1).max(16).optional(),
  paths: z
    .array(z.string().max(2048))
    .min(1)
    .max(16)
    .optional()
    .describe('Patterns: `*` is one segment, `**` any number.'),
  private: z.boolean().optional().describe('Whether the name may resolve to a private address.'),
  budget: budget.optional(),
} as const

/** A rule as an object, as in recipes. */
export const ruleObject = z.strictObject({
  ...ruleFields,
  source: source.default('create'),
  within: z.strictObject({ ...ruleFields, source }).optional(),
})

/** A rule as text, like `example.com:8443/api/**`, or as an object. */
const ruleRequest = z.union([
  z.string().max(2400),
  z.strictObject({
    ...ruleFields,
    source: source.optional().describe('Where the rule comes from; shown to the user.'),
    within: z
      .strictObject({ ...ruleFields, source })
      .optional()
      .describe('The wider rule that this one narrows. All rules below it share its budget.'),
  }),
])
const rules = z.array(ruleRequest).max(MOST)

const mode = z
  .enum(NETWORK_MODES)
  .describe(
    '`off`: no network. `allowlist`: only what rules allow. `open`: the public internet, but never private or metadata addresses.',
  )

const addresses = z.array(z.string().max(64)).max(MOST)

export const networkRequest = z.strictObject({
  mode: mode.optional(),
  allow: rules.optional(),
  deny: rules.optional().describe('The most specific rule wins; of two equally specific rules, the denial.'),
  secrets: z
    .array(z.string().max(64))
    .max(64)
    .optional()
    .describe('Names of secrets. The sandbox gets a placeholder for each.'),
  intercept: z
    .enum(INTERCEPTIONS)
    .optional()
    .describe(
      'Which TLS connections the egress process decrypts: those where request rules or secrets need it, or all.',
    ),
  addresses: z
    .strictObject({
      allowed: addresses.default([]),
      denied: addresses.default([]),
      named: addresses
        .optional()
        .describe('Single servers, like `10.0.0.5:8443`, also on private addresses.'),
    })
    .optional()
    .describe(
      'CIDR blocks or addresses, checked after name resolution. Only `named` can open private addresses.',
    ),
})

export const networkChangeBody = z.strictObject({
  mode: mode.optional(),
  allow: rules.optional(),
  deny: rules.optional(),
  forget: z.array(z.string().max(255)).max(MOST).optional().describe('Hosts whose rules are removed.'),
})

export type NetworkChangeBody = z.input<typeof networkChangeBody>

export const explainRequest = z.strictObject({
  url: z.string().max(4096).describe('`https://host:port/path`, or `host:port`.'),
  method: z.string().max(32).optional(),
})

const rule = z.object({ ...ruleFields, source: z.string(), within: z.unknown().optional() })
export const netCountsView = z.object({
  connections: z.number(),
  open: z.number(),
  allowed: z.number(),
  denied: z.number(),
  failed: z.number(),
  bytesIn: z.number().describe('Bytes received by the sandbox.'),
  bytesOut: z.number().describe('Bytes sent by the sandbox.'),
})

const level = z
  .enum(['transparent', 'proxy', 'native', 'none'])
  .describe(
    'How connections reach the egress process: redirected transparently, through a proxy only, or not at all.',
  )

/** The network part of a sandbox's record. */
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
  named: z.array(z.string()).describe('Single servers that may be reached by address.'),
  counts: netCountsView,
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
