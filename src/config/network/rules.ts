/** Rules from the command line, in the same grammar as everywhere. */
import type { NetworkRule } from '../../core/network.ts'
import { parseDenial, parseRule, type Rule, writeRule } from '../../policy/rule.ts'

/** Short text, or the parts of a rule. */
export function grantOf(given: string | object): Rule {
  return parseRule(given, 'create')
}

export function denialOf(text: string): Rule {
  return parseDenial(text, 'create')
}

/** In the form of API requests. */
export function networkRuleOf(rule: Rule): NetworkRule {
  return writeRule(rule)
}
