/** The tables `[network]` and `[secrets]`, the same in a project's file and in the user's. */
import * as z from 'zod'
import { INTERCEPTIONS, NETWORK_MODES, type RuleSource } from '../../core/network.ts'
import { parseDenial, parseRule, type Rule, ruleInput } from '../../policy/rule.ts'
import type { Privileges } from '../grants/privileges.ts'
import { PRESETS, parsePresetName } from '../presets/catalog.ts'
import { about, acceptedBy, keyedTable, lineValue } from '../project/values.ts'
import { quoted } from '../toml/problem.ts'

const { host, ports, methods, paths, budget } = ruleInput.shape
const described = ruleInput.extend({
  host: host.max(255).meta(about('The host, or `*.` and a domain for all its subdomains.')),
  ports: ports.meta({ kind: 'list of ports' }).meta(about('The ports.', '`[80, 443]`; of a denial, all')),
  methods: methods.meta(about('The HTTP methods, in capital letters.', 'all')),
  paths: paths.meta(about('The paths. `*` matches within one segment, `**` any number of segments.', 'all')),
  private: ruleInput.shape.private.meta(
    about('Whether the name may resolve to a private address. Not for denials.', '`false`'),
  ),
  budget: budget
    .unwrap()
    .extend({
      bytes: budget
        .unwrap()
        .shape.bytes.meta(about('How many bytes may be sent and received in all.', 'no limit')),
      requestsPerMinute: budget
        .unwrap()
        .shape.requestsPerMinute.meta(about('How many requests are allowed per minute.', 'no limit')),
    })
    .optional()
    .meta(about('A limit on its use. Not for denials.', 'no limit')),
})
const RULE = { kind: 'list of rules' }
const rule = z.union([z.string().max(1024), described])
const grants = z.array(rule.superRefine(acceptedBy((one) => parseRule(one, 'project')))).max(256)
const denials = z.array(rule.superRefine(acceptedBy((one) => parseDenial(one, 'project')))).max(256)

const preset = z.enum(PRESETS, {
  error: ({ input }) =>
    typeof input === 'string' ? `unknown preset: ${quoted(input)}` : 'must be the name of a preset',
})

export const networkTable = z.strictObject({
  mode: z
    .enum(NETWORK_MODES)
    .optional()
    .meta(
      about(
        'Which hosts sandboxes can reach: none (`off`), those that rules and presets allow (`allowlist`), or all public hosts (`open`).',
        'as in the user’s file, or `"allowlist"`',
      ),
    ),
  presets: z
    .array(preset)
    .max(32)
    .optional()
    .meta({ kind: 'list of presets' })
    .meta(
      about(
        `The hosts that a tool needs, by its name: ${PRESETS.map((name) => `\`${name}\``).join(', ')}.`,
        'as in the user’s file',
      ),
    ),
  allow: grants
    .optional()
    .meta(RULE)
    .meta(
      about(
        'Hosts that sandboxes can reach, each as text (`"example.com"`, `"*.example.com:8443"`, `"example.com/api/**"`) or as a table.',
        'as in the user’s file',
      ),
    ),
  deny: denials
    .optional()
    .meta(RULE)
    .meta(about('Hosts that are denied, even if a wider rule allows them; written as in `allow`.', 'none')),
  intercept: z
    .enum(INTERCEPTIONS)
    .optional()
    .meta(
      about(
        'Which TLS connections are intercepted: those where rules or secrets need it, or all.',
        '`"needed"`',
      ),
    ),
})
export type NetworkTable = z.infer<typeof networkTable>

/**
 * Secrets by name. Hosts and header are only a hint for users who do not have the secret yet; the user's own
 * slot is what counts.
 */
export const secretsTable = keyedTable(
  z
    .string()
    .regex(
      /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
      'the name of a secret starts with a letter and has letters, digits, _ . and -',
    ),
  z.strictObject({
    hosts: z
      .array(lineValue(255))
      .max(16)
      .optional()
      .meta(about('The hosts it is sent to; shown to users who have not set it yet.', 'none')),
    header: lineValue(64)
      .optional()
      .meta(about('The header that carries it; shown to users who have not set it yet.', 'none')),
    required: z.boolean().optional().meta(about('Whether sandboxes refuse to start without it.', '`false`')),
  }),
  64,
)

/** A secret that a file asks for. */
export interface SecretWish {
  readonly name: string
  readonly hosts: readonly string[]
  readonly header: string | undefined
  /** Whether sandboxes cannot be created without it. */
  readonly isRequired: boolean
}

/** The network settings of one file, and everything else that needs a grant. */
export interface NetworkWish {
  readonly mode: NetworkTable['mode']
  readonly intercept: NetworkTable['intercept']
  readonly presets: readonly string[]
  readonly allow: readonly Rule[]
  readonly deny: readonly Rule[]
  readonly secrets: readonly SecretWish[]
  /**
   * Whether the file has empty lists of hosts and presets: its sandboxes reach nothing by rules. A file
   * without lists keeps those of the user.
   */
  readonly listsNothing?: boolean | undefined
  readonly privileges?: Privileges | undefined
  /** The wish of the whole file, if a profile narrowed it. The user is asked about the whole. */
  readonly narrowedFrom?: NetworkWish | undefined
}

interface File {
  readonly network?: NetworkTable | undefined
  readonly secrets?: z.infer<typeof secretsTable> | undefined
}

export function wishOf(file: File | undefined, source: RuleSource): NetworkWish {
  const { mode, intercept, presets, allow, deny = [] } = file?.network ?? {}
  const isListed = presets !== undefined || allow !== undefined
  const isEmpty = !presets?.length && !allow?.length
  return {
    mode,
    intercept,
    presets: [...new Set(presets?.map(parsePresetName))],
    allow: (allow ?? []).map((one) => parseRule(one, source)),
    deny: deny.map((one) => parseDenial(one, source)),
    secrets: Object.entries(file?.secrets ?? {}).map(([name, { hosts = [], header, required = false }]) => ({
      name,
      hosts,
      header,
      isRequired: required,
    })),
    ...(isListed && isEmpty && { listsNothing: true }),
  }
}
