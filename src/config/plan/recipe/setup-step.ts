/** The step that installs a project's dependencies. */
import { homeOf } from '../../../core/environment.ts'
import { DEFAULT_STEP_MS } from '../../../core/recipe.ts'
import { writeRule } from '../../../policy/rule.ts'
import { orExit } from '../../../util/shell/shell-script.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Plan, SetupPlan } from '../plan.ts'
import { insidePath, withWorkspace } from '../resolve/workspace-path.ts'
import {
  bounded,
  type DraftStep,
  mirrorVariables,
  type PresetsByName,
  presetFiles,
  presetsNamed,
  presetVariables,
} from './draft-step.ts'

export function setupStep(plan: Plan, setup: SetupPlan, presets: PresetsByName): DraftStep {
  const used = presetsNamed(presets, ...setup.presets)
  const home = homeOf(plan.user)
  const own = Object.fromEntries(
    Object.entries(setup.variables).map(([name, value]) => [name, withWorkspace(value, plan.workspace)]),
  )
  return {
    name: setup.name,
    title: bounded(
      `dependencies${setup.directory === '' ? '' : ` of ${setup.directory}`}, by ${setup.manager}`,
    ),
    run: `set -eu\n${presetFiles(used)}mkdir -p ${shellWord(insidePath(plan.workspace, setup.directory))}\ncd ${shellWord(insidePath(plan.workspace, setup.directory))}\n${orExit(setup.run)}\n${FORGOTTEN}`,
    user: plan.user,
    workdir: '/',
    path: plan.path,
    variables: {
      HOME: home,
      CI: '1',
      ...Object.fromEntries(plan.variables.map(({ name, value }) => [name, value])),
      ...presetVariables(used),
      ...mirrorVariables(plan, presetVariables(used)),
      ...own,
    },
    network: used.flatMap(({ rules }) => rules.map(writeRule)),
    timeoutMs: DEFAULT_STEP_MS,
    inputs: { files: setup.inputs, stubs: setup.stubs },
  }
}

/**
 * Downloads are cached outside the sandbox, where programs inside cannot change them; a second copy in the
 * layer is useless.
 */
const FORGOTTEN =
  'rm -rf "$HOME/.npm/_cacache" "$HOME/.npm/_logs" "$HOME/.cache/pip" "$HOME/.cache/pypoetry/cache" "$HOME/.cache/yarn"\n'
