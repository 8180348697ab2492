/** One step of a recipe before its input files are packed, and the parts that all steps share. */
import { DEFAULT_STEP_MS, type Step } from '../../../core/recipe.ts'
import { writeRule } from '../../../policy/rule.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { EnvironmentPreset } from '../../presets/catalog.ts'
import type { Preset } from '../../presets/presets.ts'
import { printable } from '../../toml/problem.ts'
import type { Plan } from '../plan.ts'
import { npmPackage } from '../resolve/tools.ts'

/** A step before its input files are packed. */
export interface DraftStep extends Step {
  readonly inputs?:
    | { readonly files: readonly string[]; readonly stubs: Readonly<Record<string, string>> }
    | undefined
  /** A tar file that is unpacked in the sandbox of the step, and texts that are added to it. */
  readonly archive?:
    | {
        readonly to: string
        readonly data: Buffer
        readonly added: Readonly<Record<string, string>>
        /** For people: what the archive is. */
        readonly label: string
      }
    | undefined
}

export type PresetsByName = ReadonlyMap<EnvironmentPreset, Preset>

/** A step that runs as root. */
export function rootStep({
  name,
  title,
  run,
  presets = [],
  path = [],
}: {
  readonly name: string
  readonly title: string
  readonly run: string
  readonly presets?: readonly Preset[]
  readonly path?: readonly string[]
}): DraftStep {
  return {
    name,
    title: bounded(title),
    run: `set -eu\n${presetFiles(presets)}${run}`,
    user: 'root',
    workdir: '/',
    path,
    variables: { HOME: '/root', DEBIAN_FRONTEND: 'noninteractive', ...presetVariables(presets) },
    network: presets.flatMap(({ rules }) => rules.map(writeRule)),
    timeoutMs: DEFAULT_STEP_MS,
  }
}

const LONGEST_TITLE = 160

/** SECURITY: CF-02. The title is shown on a terminal, so it is made printable and short. */
export function bounded(title: string): string {
  const all = printable(title, title.length)
  return all.length <= LONGEST_TITLE ? all : `${all.slice(0, LONGEST_TITLE - 3)}...`
}

export function presetVariables(presets: readonly Preset[]): Record<string, string> {
  return Object.assign({}, ...presets.map(({ variables }) => variables)) as Record<string, string>
}

/** Settings of package managers that need their own variables for the mirrors of the presets. */
export function mirrorVariables(
  { tools }: Pick<Plan, 'tools'>,
  { npm_config_registry: npm, PIP_INDEX_URL: pip }: Readonly<Record<string, string>>,
): Record<string, string> {
  const yarn = tools.find(({ name }) => name === 'yarn')
  const isNew = yarn && npmPackage(yarn.name, yarn.version) !== 'yarn'
  return {
    // Yarn 1 and newer versions refuse each other's variable.
    ...(npm &&
      yarn &&
      (isNew ? { YARN_NPM_REGISTRY_SERVER: npm.replace(/\/$/, '') } : { yarn_registry: npm })),
    ...(pip && {
      UV_DEFAULT_INDEX: pip,
      PDM_PYPI_URL: pip,
      PIPENV_PYPI_MIRROR: pip,
      POETRY_PYPI_MIRROR_URL: pip,
    }),
  }
}

/** Writes the files that a client needs in its home to use the same mirror as this machine. */
export function presetFiles(presets: readonly Preset[]): string {
  return presets
    .flatMap(({ files }) => files)
    .map(({ path, text }) => {
      const target = `"$HOME"/${shellWord(path)}`
      return `mkdir -p "$(dirname ${target})"\nprintf %s ${shellWord(Buffer.from(text).toString('base64'))} | base64 -d > ${target}\n`
    })
    .join('')
}

export function presetsNamed(presets: PresetsByName, ...names: readonly EnvironmentPreset[]): Preset[] {
  return names.flatMap((name) => presets.get(name) ?? [])
}
