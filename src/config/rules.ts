/** Rules as the command line gives them, in the grammar that holds everywhere. */
import type { NetworkRule } from '../core/network.ts'
import { parseDenial, parseRule, type Rule, writeRule } from '../policy/rule.ts'

/** Short text, or the parts of a rule. */
export function grantOf(given: string | object): Rule {
  return parseRule(given, 'create')
}

export function denialOf(text: string): Rule {
  return parseDenial(text, 'create')
}

/** As requests carry it. */
export function inParts(rule: Rule): NetworkRule {
  return writeRule(rule)
}
