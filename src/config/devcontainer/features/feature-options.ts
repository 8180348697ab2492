/** The options of a Feature as its install script sees them. */
import { invalid } from '../../../core/error.ts'
import { quoted } from '../../toml/problem.ts'
import type { FeatureOptionsValue } from '../properties.ts'
import type { FeatureProperties } from './feature-metadata.ts'

export type OptionValue = string | boolean

/**
 * Every declared option with the user's value or its default, then what the user adds. A string instead of an
 * object is the value of the option `version`.
 */
export function featureOptionValues(
  { options = {} }: Pick<FeatureProperties, 'options'>,
  said: FeatureOptionsValue,
): Readonly<Record<string, OptionValue>> {
  const values: Record<string, OptionValue> = {}
  for (const [name, one] of Object.entries(options)) if (one.default !== undefined) values[name] = one.default
  if (typeof said === 'object') return { ...values, ...said }
  return Object.hasOwn(options, 'version') ? { ...values, version: said } : values
}

/** Fails if a value is not one that a strict option (`enum`) has. Other values are the script's to judge. */
export function checkFeatureOptions(
  { id, options = {} }: Pick<FeatureProperties, 'id' | 'options'>,
  values: Readonly<Record<string, OptionValue>>,
): void {
  for (const [name, value] of Object.entries(values)) {
    const allowed = Object.hasOwn(options, name) ? options[name]?.enum : undefined
    if (allowed === undefined || allowed.includes(String(value))) continue
    throw invalid(
      'devcontainer.feature_option',
      `the option ${quoted(name)} of the Feature ${quoted(id)} cannot be ${quoted(String(value))}`,
      `it is one of ${allowed.slice(0, 20).map(quoted).join(', ')}`,
    )
  }
}

/** The variable of an option. */
export function featureVariable(option: string): string {
  return option
    .replaceAll(/[^\w_]/g, '_')
    .replace(/^[\d_]+/, '_')
    .toUpperCase()
}

/** The variables of the install script, in the order of the options. */
export function featureVariables(
  values: Readonly<Record<string, OptionValue>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [featureVariable(name), String(value)]),
  )
}
