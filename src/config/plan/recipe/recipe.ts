/** Turns a plan into a recipe, with the steps that change least often first. */
import { baseKind } from '../../../bases/bases.ts'
import type { NetworkRule } from '../../../core/network.ts'
import { DEFAULT_STEP_MS, type RecipeBase } from '../../../core/recipe.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { devcontainerSteps } from '../devcontainer/devcontainer-steps.ts'
import type { Plan } from '../plan.ts'
import { KNOWN_SERVICES } from '../services/service-catalog.ts'
import { serviceParts } from '../services/service-plan.ts'
import { addonSteps } from './addon-steps.ts'
import { type DraftStep, type PresetsByName, rootStep } from './draft-step.ts'
import { languageStep } from './language-steps.ts'
import { servicePlacesStep } from './service-places-step.ts'
import { setupStep } from './setup-step.ts'
import { type Pinned, systemStep } from './system-step.ts'
import { packageSteps, toolSteps } from './tool-steps.ts'

export interface DraftRecipe {
  readonly base: RecipeBase
  readonly steps: readonly DraftStep[]
}

const NOTHING_PINNED: Pinned = { apt: {}, npm: {}, pip: {} }

/** `approved` are hosts that Features and flakes may reach besides those of the presets. */
export function recipeOf(
  plan: Plan,
  presets: PresetsByName,
  pinned: Pinned = NOTHING_PINNED,
  approved: readonly NetworkRule[] = [],
): DraftRecipe {
  const steps = [
    ...systemStep(plan, presets, pinned),
    ...devcontainerSteps(plan, presets, approved),
    ...servicePlacesStep(plan),
    ...plan.languages.flatMap((one) => languageStep(one, presets)),
    ...toolSteps(plan, presets, pinned),
    ...packageSteps(plan, presets, pinned, approved),
    ...addonSteps(plan.addons, presets),
    ...serviceStep(plan),
    ...profileStep(plan),
    ...plan.setups.map((setup) => setupStep(plan, setup, presets)),
  ]
  const { stepMs: timeoutMs = DEFAULT_STEP_MS } = plan.resources
  return { base: recipeBase(plan), steps: steps.map((step) => ({ ...step, timeoutMs })) }
}

/** Includes the base's tools that the layers depend on. */
function recipeBase({ resolvedBase, languages, tools }: Plan): RecipeBase {
  const used = [
    ...languages.flatMap(({ language, source }) =>
      source.kind === 'there' ? [[language, `${source.version} ${source.directory}`] as const] : [],
    ),
    ...tools.flatMap(({ name, version, directory }) =>
      directory === undefined ? [] : [[name, `${version} ${directory}`] as const],
    ),
  ]
  return baseKind(resolvedBase.base).recipe(resolvedBase, Object.fromEntries(used))
}

/**
 * Login shells, which agents often use, reset the PATH on Debian, so the environment's PATH is set there too.
 */
function profileStep({ path, resolvedBase }: Plan): DraftStep[] {
  if (path.length === 0 || !baseKind(resolvedBase.base).system.hasProfile) return []
  const line = `PATH=${shellWord(path.join(':'))}:"$PATH"`
  const run = `printf '%s\\n' ${shellWord(line)} > /etc/profile.d/agentpod.sh\n`
  return [rootStep({ name: 'profile', title: 'PATH for login shells', run })]
}

/** Creates data directories once, at build time, so that services start fast. */
function serviceStep(plan: Plan): DraftStep[] {
  const known = plan.services.filter((one) => one.known !== undefined)
  if (known.length === 0) return []
  const run = known.map((service) => {
    const parts = serviceParts(service, plan.user)
    return `install -d -o ${parts.daemon} -g ${parts.daemon} -m 700 ${parts.data}\n${KNOWN_SERVICES[service.known ?? '']?.prepare(parts)}\n`
  })
  return [
    rootStep({
      name: 'services',
      title: `data directories of ${known.map(({ name }) => name).join(', ')}`,
      run: run.join(''),
    }),
  ]
}

/**
 * The command of [lifecycle] start, else those of other files, run in the project at every start. Undefined
 * if there is none.
 */
export function startCommand({
  commands,
  starts,
  workspace,
}: Pick<Plan, 'commands' | 'starts' | 'workspace'>): string | undefined {
  const asked = commands.start.filter(({ rank }) => rank === 'agentpod.toml')
  const own = (asked.length > 0 ? asked : starts).map(({ run }) => run)
  return own.length === 0 ? undefined : `cd ${shellWord(workspace)} || exit 1\n${own.join('\n')}`
}
