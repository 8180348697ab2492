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

export const secretsTable = z.strictObject({
  use: z.array(z.string().max(64)).max(64).optional(),
})

/** What one file says about the network. */
export interface NetworkWish {
  readonly mode: NetworkTable['mode']
  readonly intercept: NetworkTable['intercept']
  readonly presets: readonly string[]
  readonly allow: readonly Rule[]
  readonly deny: readonly Rule[]
  readonly secrets: readonly string[]
}

export function wishOf(
  file:
    | { network?: NetworkTable | undefined; secrets?: { use?: string[] | undefined } | undefined }
    | undefined,
  source: RuleSource,
): NetworkWish {
  const { mode, intercept, presets = [], allow = [], deny = [] } = file?.network ?? {}
  return {
    mode,
    intercept,
    presets: [...new Set(presets.map(parsePresetName))],
    allow: allow.map((rule) => parseRule(rule, source)),
    deny: deny.map((rule) => parseDenial(rule, source)),
    secrets: [...new Set(file?.secrets?.use ?? [])],
  }
}
