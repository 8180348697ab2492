/** Rules as the command line gives them, in the grammar that holds everywhere. */
import type { NetworkRule } from '../core/network.ts'
import { parseDenial, parseRule, type Rule, writeRule } from '../policy/rule.ts'

export function grantOf(text: string): Rule {
  return parseRule(text, 'create')
}

export function denialOf(text: string): Rule {
  return parseDenial(text, 'create')
}

/** As requests carry it. */
export function inParts(rule: Rule): NetworkRule {
  return writeRule(rule)
}
