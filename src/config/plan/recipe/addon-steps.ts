/** Steps that install the addons. */
import { KNOWN_ADDONS } from '../addons/addon-catalog.ts'
import type { AddonPlan } from '../addons/addon-plan.ts'
import { type DraftStep, type PresetsByName, presetsNamed, rootStep } from './draft-step.ts'

export function addonSteps(addons: readonly AddonPlan[], presets: PresetsByName): DraftStep[] {
  return addons.map(({ name, arch }) => {
    const { label, usesNpm, install } = KNOWN_ADDONS[name]
    return rootStep({
      name: `addons/${name}`,
      title: `${label} for the browser`,
      run: install(arch),
      presets: usesNpm ? presetsNamed(presets, 'npm') : [],
    })
  })
}
