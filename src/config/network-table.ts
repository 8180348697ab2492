/** The tables `[network]` and `[secrets]`, the same in a project's file and in the user's. */
import { z } from 'zod'
import { INTERCEPTIONS, NETWORK_MODES, type RuleSource } from '../core/network.ts'
import { parseDenial, parseRule, type Rule, ruleInput } from '../policy/rule.ts'
import { parsePresetName } from './presets/catalog.ts'

const rules = z.array(z.union([z.string(), ruleInput])).max(256)

export const networkTable = z.strictObject({
  mode: z.enum(NETWORK_MODES).optional(),
  presets: z.array(z.string().max(32)).max(32).optional(),
  allow: rules.optional(),
  deny: rules.optional(),
  intercept: z.enum(INTERCEPTIONS).optional(),
})
export type NetworkTable = z.infer<typeof networkTable>

/** By name. What is said of a secret helps whoever does not have it yet; the slot that holds is the user's own. */
export const secretsTable = z.record(
  z
    .string()
    .regex(
      /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
      'a secret’s name begins with a letter; letters, digits, _ . and - follow',
    ),
  z.strictObject({
    hosts: z.array(z.string().max(255)).max(16).optional(),
    header: z.string().max(64).optional(),
    required: z.boolean().optional(),
  }),
)

/** A secret that a file names. */
export interface SecretWish {
  readonly name: string
  readonly hosts: readonly string[]
  readonly header: string | undefined
  /** Whether nothing is made without it. */
  readonly isRequired: boolean
}

/** What one file says about the network. */
export interface NetworkWish {
  readonly mode: NetworkTable['mode']
  readonly intercept: NetworkTable['intercept']
  readonly presets: readonly string[]
  readonly allow: readonly Rule[]
  readonly deny: readonly Rule[]
  readonly secrets: readonly SecretWish[]
}

interface File {
  readonly network?: NetworkTable | undefined
  readonly secrets?: z.infer<typeof secretsTable> | undefined
}

export function wishOf(file: File | undefined, source: RuleSource): NetworkWish {
  const { mode, intercept, presets = [], allow = [], deny = [] } = file?.network ?? {}
  return {
    mode,
    intercept,
    presets: [...new Set(presets.map(parsePresetName))],
    allow: allow.map((rule) => parseRule(rule, source)),
    deny: deny.map((rule) => parseDenial(rule, source)),
    secrets: Object.entries(file?.secrets ?? {}).map(([name, { hosts = [], header, required = false }]) => ({
      name,
      hosts,
      header,
      isRequired: required,
    })),
  }
}
