/**
 * The command that installs the dependencies of a Python project, and then the project itself if that needs
 * no sources.
 */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import { shortQuote, textAt } from '../project-files/parsed-file.ts'
import { pathInProject, relativeTo } from '../project-files/paths.ts'
import {
  allDependencies,
  type DependencyGroup,
  declaredDependencies,
  isForDevelopment,
} from './dependencies.ts'
import { type PackageFiles, packageFiles } from './package-files.ts'
import type { PythonManager } from './package-manager.ts'
import { PIP, type PipSetup, pipSetup, VENV } from './pip-setup.ts'
import { buildSystem, type PythonProject, readPythonProject } from './project.ts'
import type { Requirement } from './requirements.ts'

export interface PythonSetup {
  /** Undefined if there is nothing to install. */
  readonly run: string | undefined
  readonly inputs: readonly string[]
  readonly stubs: ReadonlyMap<string, string>
  readonly generated: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  /** Directories where imports start, relative to the project; empty if the package itself is installed. */
  readonly sources: readonly string[]
  /** All dependencies that will be installed, according to the manifests. */
  readonly requirements: readonly Requirement[]
  readonly notes: readonly string[]
}

/** Extras that bring gigabytes, or everything there is. */
const HEAVY =
  /(?:^|[-_])(?:all|full|everything|gpu|cuda\d*|rocm|torch|pytorch|tensorflow|tf|jax|mlx|onnx\w*|spark)(?:[-_]|$)/i

/** `missing` are programs that the commands need and no manifest names. */
export function pythonSetup(
  tree: FileTree,
  project: PythonProject,
  manager: PythonManager,
  missing: readonly string[],
): PythonSetup {
  const packages = [project, ...project.members].flatMap((one) => {
    const files = packageFiles(tree, one)
    return files ? [{ project: one, files }] : []
  })
  const plan =
    manager.name === 'pip' ? pipSetup(tree, project, packages.length > 0) : managedPlan(project, manager)
  const locals = localPackages(tree, plan.local)
  const installed = plan.installsItself ? [] : packages
  const more = [
    ...(missing.length === 0 ? [] : [`${installer(manager)} ${missing.join(' ')}`]),
    ...itself(tree, project, manager, installed),
  ]
  const runs = [...(plan.runs.length === 0 && more.length > 0 ? [VENV] : plan.runs), ...more]
  const all = [...packages.map(({ files }) => files), ...locals]
  return {
    run: runs.length === 0 ? undefined : runs.join(' && '),
    inputs: [...plan.inputs, ...all.flatMap(({ inputs }) => inputs)],
    stubs: new Map(all.flatMap(({ stubs }) => [...stubs])),
    generated: all.flatMap(({ generated }) => generated),
    variables: plan.variables,
    sources: packages.length > 0 ? [] : [sourceOf(tree, project)],
    requirements: plan.requirements,
    notes: [...plan.notes, ...compileNote(project, packages.length > 0)],
  }
}

function installer({ name }: PythonManager): string {
  return name === 'uv' ? 'uv pip install' : PIP
}

/**
 * Installs the project last, and may fail: its dependencies are installed by then, and its sources are not
 * there. On failure the source directories are put on the import path.
 */
function itself(
  tree: FileTree,
  root: PythonProject,
  manager: PythonManager,
  packages: readonly { readonly project: PythonProject; readonly files: PackageFiles }[],
): readonly string[] {
  if (packages.length === 0) return []
  const here = (directory: string): string => relativeTo(root.directory, directory)
  const places = packages.map(({ project }) => `-e ${shellWord(here(project.directory))}`)
  const sources = packages.map(({ project }) => shellWord(here(sourceOf(tree, project))))
  const variables = [...new Set(packages.map(({ files }) => files.variables))].join('')
  const install = `${variables}${installer(manager)} --no-deps ${places.join(' ')}`
  const paths = `for site in .venv/lib/python3*/site-packages; do realpath ${sources.join(' ')} > "$site/project.pth"; done`
  return [
    `{ ${install} || { echo 'the project itself could not be installed, only what it depends on'; ${paths}; }; }`,
  ]
}

function compileNote(project: PythonProject, isInstalled: boolean): readonly string[] {
  if (isInstalled || !buildSystem(project)) return []
  return [
    'parts of the project are compiled from its sources, so only its dependencies are installed; `pip install -e .` builds it',
  ]
}

function sourceOf(tree: FileTree, { directory }: PythonProject): string {
  const source = joinPath(directory, 'src')
  return tree.below(source).some((file) => file.endsWith('.py')) ? source : directory
}

function localPackages(tree: FileTree, directories: readonly string[]): readonly PackageFiles[] {
  return directories.flatMap((directory) => {
    const toml = tree.has(joinPath(directory, 'pyproject.toml')) || tree.has(joinPath(directory, 'setup.py'))
    const files = toml ? packageFiles(tree, readPythonProject(tree, directory)) : undefined
    return files ? [files] : []
  })
}

function managedPlan(project: PythonProject, manager: PythonManager): PipSetup {
  const said = declaredDependencies(project)
  const everything = [project, ...project.members].flatMap((one) =>
    allDependencies(declaredDependencies(one)),
  )
  const settings = ['uv.toml', 'poetry.toml', 'pdm.toml', 'Pipfile']
  const inputs = [
    ...[project, ...project.members].map(({ directory }) => joinPath(directory, 'pyproject.toml')),
    ...(manager.lockfile === undefined ? [] : [manager.lockfile]),
    ...settings.map((name) => joinPath(project.directory, name)),
  ]
  const chosen = chosenExtras(said.extras)
  const plan = {
    inputs,
    local: pathDependencies(project),
    installsItself: false,
    requirements: everything,
    notes: chosen.notes,
  }
  const isLocked = manager.lockfile !== undefined
  switch (manager.name) {
    case 'uv':
      return { ...plan, ...uvRuns(project, isLocked, chosen.names, said.groups) }
    case 'poetry':
      return {
        ...plan,
        runs: [VENV, `poetry install --no-root${poetryFlags(project, chosen)}`],
        variables: POETRY,
      }
    case 'pdm':
      return {
        ...plan,
        runs: [VENV, `pdm ${isLocked ? 'sync' : 'install'} --no-self -G :all`],
        variables: { PDM_CHECK_UPDATE: 'false', PDM_IGNORE_SAVED_PYTHON: '1' },
      }
    default:
      return {
        ...plan,
        runs: [VENV, `pipenv ${isLocked ? 'sync' : 'install'} --dev`],
        variables: { PIPENV_VENV_IN_PROJECT: '1', PIPENV_VERBOSITY: '-1' },
      }
  }
}

const POETRY = { POETRY_VIRTUALENVS_IN_PROJECT: 'true', POETRY_VIRTUALENVS_PREFER_ACTIVE_PYTHON: 'true' }
/** Uses the installed Python; uv would otherwise download another from another host. */
const UV = { UV_PYTHON_DOWNLOADS: 'never' }

interface Extras {
  /** All of them, or those that are named. */
  readonly names: 'all' | readonly string[]
  readonly notes: readonly string[]
}

function chosenExtras(extras: readonly DependencyGroup[]): Extras {
  const heavy = extras.filter(
    ({ name, requirements }) => HEAVY.test(name) || requirements.some((one) => HEAVY.test(one.name)),
  )
  if (heavy.length === 0) return { names: 'all', notes: [] }
  return {
    names: extras.flatMap(({ name }) => (isForDevelopment(name) && !HEAVY.test(name) ? [name] : [])),
    notes: [
      `only the extras for development are installed, because ${shortQuote(heavy[0]?.name ?? '', 40)} is large`,
    ],
  }
}

function uvRuns(
  { pyproject, members }: PythonProject,
  isLocked: boolean,
  extras: 'all' | readonly string[],
  groups: readonly DependencyGroup[],
): Pick<PipSetup, 'runs' | 'variables'> {
  // Extras that are declared to conflict cannot be installed together.
  const hasConflicts = Array.isArray(valueAt(pyproject?.data, 'tool', 'uv', 'conflicts'))
  const wanted =
    extras === 'all'
      ? hasConflicts
        ? []
        : ['--all-extras']
      : extras.map((name) => `--extra ${shellWord(name)}`)
  if (!isLocked && members.length === 0) {
    const named = groups
      .filter(({ name }) => isForDevelopment(name))
      .map(({ name }) => `--group ${shellWord(name)}`)
    return {
      runs: [
        'uv venv --allow-existing --python python3',
        ['uv pip install -r pyproject.toml', ...wanted, ...named].join(' '),
      ],
      variables: UV,
    }
  }
  const flags = [
    ...(isLocked ? ['--frozen'] : []),
    '--python python3',
    ...wanted,
    ...(hasConflicts ? [] : ['--all-groups']),
    ...(members.length > 0 ? ['--all-packages', '--no-install-workspace'] : ['--no-install-project']),
  ]
  return { runs: [`uv sync ${flags.join(' ')}`], variables: UV }
}

function poetryFlags({ pyproject }: PythonProject, { names }: Extras): string {
  const groups = Object.entries(objectAt(pyproject?.data, 'tool', 'poetry', 'group'))
  const optional = groups.flatMap(([name, group]) =>
    isObject(group) && group['optional'] === true && isForDevelopment(name) ? [name] : [],
  )
  const withGroups = optional.length > 0 ? ` --with ${shellWord(optional.join(','))}` : ''
  const extras =
    names === 'all' ? ' --all-extras' : names.map((name) => ` --extras ${shellWord(name)}`).join('')
  return `${extras}${withGroups}`
}

/** Dependencies within the project: `{ path = "../library" }`. */
function pathDependencies({ directory, pyproject }: PythonProject): readonly string[] {
  const data = pyproject?.data
  const tables = [
    objectAt(data, 'tool', 'uv', 'sources'),
    objectAt(data, 'tool', 'poetry', 'dependencies'),
    objectAt(data, 'tool', 'poetry', 'dev-dependencies'),
    ...Object.values(objectAt(data, 'tool', 'poetry', 'group')).map((group) =>
      objectAt(group, 'dependencies'),
    ),
  ]
  const found = tables.flatMap((table) =>
    Object.values(table).flatMap((one) => {
      const path = textAt(one, 'path')
      const place = path === undefined ? undefined : pathInProject(directory, path)
      return place === undefined ? [] : [place]
    }),
  )
  return [...new Set(found)].slice(0, 50)
}
