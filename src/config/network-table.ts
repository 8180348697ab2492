/** The tables `[network]` and `[secrets]`, the same in a project's file and in the user's. */
import { z } from 'zod'
import { INTERCEPTIONS, NETWORK_MODES, type RuleSource } from '../core/network.ts'
import { parseDenial, parseRule, type Rule, ruleInput } from '../policy/rule.ts'
import { PRESETS, parsePresetName } from './presets/catalog.ts'
import type { Privileges } from './privileges.ts'
import { quoted } from './problem.ts'
import { about, line, table, taken } from './project/values.ts'

const { host, ports, methods, paths, budget } = ruleInput.shape
const described = ruleInput.extend({
  host: host.max(255).meta(about('The host, or `*.` and a domain for every name below it.')),
  ports: ports.meta({ kind: 'list of ports' }).meta(about('The ports.', '`[80, 443]`; of a denial, all')),
  methods: methods.meta(about('The methods of HTTP, in capital letters.', 'all')),
  paths: paths.meta(about('The paths; `*` is a part of one segment, `**` any number of segments.', 'all')),
  private: ruleInput.shape.private.meta(
    about('Whether the name may lead to a private address. Not for denials.', '`false`'),
  ),
  budget: budget
    .unwrap()
    .extend({
      bytes: budget
        .unwrap()
        .shape.bytes.meta(about('How many bytes, in both directions together.', 'no bound')),
      requestsPerMinute: budget
        .unwrap()
        .shape.requestsPerMinute.meta(about('How many requests in a minute.', 'no bound')),
    })
    .optional()
    .meta(about('How much may be used of it. Not for denials.', 'no bound')),
})
const RULE = { kind: 'list of rules' }
const rule = z.union([z.string().max(1024), described])
const grants = z.array(rule.superRefine(taken((one) => parseRule(one, 'project')))).max(256)
const denials = z.array(rule.superRefine(taken((one) => parseDenial(one, 'project')))).max(256)

const preset = z.enum(PRESETS, {
  error: ({ input }) =>
    typeof input === 'string' ? `there is no preset ${quoted(input)}` : 'must be the name of a preset',
})

export const networkTable = z.strictObject({
  mode: z
    .enum(NETWORK_MODES)
    .optional()
    .meta(
      about(
        'What may be reached: nothing (`off`), what rules and presets allow (`allowlist`), or all public hosts (`open`).',
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
        'Hosts that may be reached, each as text (`"example.com"`, `"*.example.com:8443"`, `"example.com/api/**"`) or as a table.',
        'as in the user’s file',
      ),
    ),
  deny: denials
    .optional()
    .meta(RULE)
    .meta(
      about(
        'Hosts that may not be reached, whatever else allows them more widely; written like those of `allow`.',
        'none',
      ),
    ),
  intercept: z
    .enum(INTERCEPTIONS)
    .optional()
    .meta(
      about(
        'Which TLS is opened on the way out: where rules or secrets need it, or all of it.',
        '`"needed"`',
      ),
    ),
})
export type NetworkTable = z.infer<typeof networkTable>

/** By name. What is said of a secret helps whoever does not have it yet; the slot that holds is the user's own. */
export const secretsTable = table(
  z
    .string()
    .regex(
      /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
      'a secret’s name begins with a letter; letters, digits, _ . and - follow',
    ),
  z.strictObject({
    hosts: z
      .array(line(255))
      .max(16)
      .optional()
      .meta(about('Where it is sent to, for who has yet to set it.', 'none')),
    header: line(64).optional().meta(about('The header that carries it, for who has yet to set it.', 'none')),
    required: z.boolean().optional().meta(about('Whether nothing is started without it.', '`false`')),
  }),
  64,
)

/** A secret that a file names. */
export interface SecretWish {
  readonly name: string
  readonly hosts: readonly string[]
  readonly header: string | undefined
  /** Whether nothing is made without it. */
  readonly isRequired: boolean
}

/** What one file says about the network, and about whatever else has to be granted. */
export interface NetworkWish {
  readonly mode: NetworkTable['mode']
  readonly intercept: NetworkTable['intercept']
  readonly presets: readonly string[]
  readonly allow: readonly Rule[]
  readonly deny: readonly Rule[]
  readonly secrets: readonly SecretWish[]
  /** Whether it lists hosts or presets, and none of them: its sandboxes reach nothing by rules. A file that has no lists leaves the user's. */
  readonly listsNothing?: boolean | undefined
  readonly privileges?: Privileges | undefined
  /** The whole wish of a file, of which a profile has left this much. It is the whole that is asked about. */
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
