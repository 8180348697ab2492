/** Adds to build steps what their package managers need: rules for registries, and settings for mirrors. */

import { PACKAGE_PRESETS, type PackagePreset } from '../core/build/package-preset.ts'
import { isAgentPodError } from '../core/error.ts'
import type { NetworkRule } from '../core/network.ts'
import type { Recipe, Step } from '../core/recipe.ts'
import { shellWord } from '../util/shell/shell-word.ts'

/** The registry of a package manager, and the settings that it needs inside. */
export interface PackageAccess {
  readonly rules: readonly NetworkRule[]
  readonly variables: Readonly<Record<string, string>>
  /** Under the home directory inside. */
  readonly files: readonly { readonly path: string; readonly text: string }[]
}

export interface PackagePresets {
  /** `failed_precondition` if the server's machine does not know the registry. */
  get(name: PackagePreset): Promise<PackageAccess>
}

export interface PresetStep extends Step {
  readonly presets: readonly PackagePreset[]
}

export async function withPresets(
  recipe: Pick<Recipe, 'base'> & { readonly steps: readonly PresetStep[] },
  presets: PackagePresets,
): Promise<Recipe> {
  const steps = await Promise.all(
    recipe.steps.map(async ({ presets: names, ...step }) =>
      names.length === 0 ? step : withAccess(step, await Promise.all(names.map((name) => presets.get(name)))),
    ),
  )
  return { base: recipe.base, steps }
}

/** Variables of the step itself take precedence. */
export function withAccess(step: Step, access: readonly PackageAccess[]): Step {
  const variables = Object.assign({}, ...access.map((one) => one.variables)) as Record<string, string>
  const pip = variables['PIP_INDEX_URL']
  const files = access.flatMap((one) => one.files)
  return {
    ...step,
    run: files.map(writing).join('') + step.run,
    variables: { ...variables, ...(pip !== undefined && { UV_DEFAULT_INDEX: pip }), ...step.variables },
    network: [...step.network, ...access.flatMap(({ rules }) => rules)],
  }
}

function writing({ path, text }: PackageAccess['files'][number]): string {
  const target = `"$HOME"/${shellWord(path)}`
  const data = Buffer.from(text).toString('base64')
  return `mkdir -p "$(dirname ${target})"\nprintf %s ${shellWord(data)} | base64 -d > ${target}\n`
}

/** Those that the server's machine knows; a package manager that it does not have is left out. */
export async function knownAccess(presets: PackagePresets): Promise<PackageAccess[]> {
  const found = await Promise.all(
    PACKAGE_PRESETS.map((name) =>
      presets.get(name).catch((error: unknown) => {
        if (isAgentPodError(error, 'failed_precondition')) return undefined
        throw error
      }),
    ),
  )
  return found.filter((one) => one !== undefined)
}
