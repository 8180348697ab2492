/**
 * Network presets that a plan needs, so that builds and sandboxes can reach the registries of its package
 * managers.
 */
import type { ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import type { Finding } from '../../detect/finding.ts'
import type { Evidence } from '../../evidence.ts'
import { ENVIRONMENT_PRESETS, type EnvironmentPreset } from '../../presets/catalog.ts'
import { type AddonPlan, usesNpm } from '../addons/addon-plan.ts'
import type { LanguagePlan, Plan, SetupPlan, ToolPlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { extraFrom, extraPackages } from './packages.ts'

export function planPresets(
  input: PlanInput,
  findings: readonly Finding[],
  resolvedBase: ResolvedBase,
  o: {
    readonly found: readonly LanguagePlan[]
    readonly tools: readonly ToolPlan[]
    readonly setups: readonly SetupPlan[]
    readonly addons: readonly AddonPlan[]
  },
): Plan['presets'] {
  const wanted = new Map<EnvironmentPreset, Evidence>()
  const add = (name: EnvironmentPreset, evidence: Evidence): void => {
    if (!wanted.has(name)) wanted.set(name, evidence)
  }
  for (const { presets, evidence } of [...findings, ...o.setups])
    for (const name of presets) add(name, evidence)
  for (const { language, source: one } of o.found) {
    if (one.kind === 'npm') add('npm', { file: '', said: `${language} comes from npm` })
    if (one.kind === 'go') add('go', { file: '', said: 'Go comes from its module proxy' })
  }
  for (const { name, from, evidence } of o.tools) {
    if (from === 'npm' || from === 'pip') add(from, { ...evidence, said: `${name} comes from ${from}` })
  }
  if (input.devcontainer && input.devcontainer.features.length > 0)
    for (const name of ['apt', 'npm', 'pip'] as const)
      add(name, { file: input.devcontainer.file, said: 'Features install packages' })
  for (const { manager, evidence } of extraFrom(input)) add(manager, evidence)
  const extra = extraPackages(input)
  for (const name of ['npm', 'pip', 'cargo', 'go', 'nix'] as const)
    if (extra[name].length > 0)
      add(name, { file: input.file?.name ?? '', said: `[environment.packages] ${name}` })
  const { packageManager, ownPackageManager } = baseKind(resolvedBase.base).tools
  if (packageManager) add(packageManager, { file: '', said: 'the base is Debian' })
  if (ownPackageManager && (input.file?.data.environment.packages.apt ?? []).length > 0)
    add(ownPackageManager, { file: input.file?.name ?? '', said: '[environment.packages] apt' })
  for (const { name, choice } of o.addons) {
    if (usesNpm(name)) add('npm', choice.evidence)
    if (ownPackageManager) add(ownPackageManager, choice.evidence)
  }
  return ENVIRONMENT_PRESETS.flatMap((name) => {
    const evidence = wanted.get(name)
    return evidence ? [{ name, evidence }] : []
  })
}
