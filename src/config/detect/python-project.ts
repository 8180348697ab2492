/** Where Python projects lie, and what their manifests say. */
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { worthwhile } from './aside.ts'
import { isMember } from './directory-pattern.ts'
import { type Ini, readIni } from './ini-file.ts'
import { isWithin, relativeTo } from './place.ts'
import { at, isTable, type Read, readPlain, readToml, tableAt, textsAt } from './reading.ts'

export interface ReadFile extends Read {
  readonly file: string
}

export interface PythonProject {
  readonly directory: string
  readonly evidence: Evidence
  readonly pyproject?: ReadFile | undefined
  readonly pipfile?: ReadFile | undefined
  readonly setupCfg?: { readonly file: string; readonly ini: Ini } | undefined
  readonly setupPy?: { readonly file: string; readonly text: string } | undefined
  readonly toxIni?: { readonly file: string; readonly ini: Ini } | undefined
  /** Names in it and in its `requirements` directory, relative to the project. */
  readonly requirementFiles: readonly string[]
  /** Members of a workspace of uv's. */
  readonly members: readonly PythonProject[]
}

/** Files that make a directory a Python project, the most telling first. */
const MARKERS = [
  'pyproject.toml',
  'uv.lock',
  'poetry.lock',
  'pdm.lock',
  'Pipfile',
  'setup.py',
  'setup.cfg',
  'requirements.txt',
]
const REQUIREMENTS = /^(?:[\w.-]{1,60}[-_.])?requirements?(?:[-_.][\w.-]{1,60})?\.(?:txt|in)$/
const CONDA = /^environment\.ya?ml$/
/** Programs that lie about with no manifest beside them. */
const PROGRAMS = /^(?:main|app|manage|server|bot|run|cli|wsgi|asgi|test_\w{1,60})\.py$/
/** Lists are looked for in it by patterns. */
const LONGEST_PROGRAM = 100_000
/** Directories whose requirements are for working on the project around them, not a project. */
const ANNEXES: ReadonlySet<string> = new Set([
  'doc',
  'docs',
  'test',
  'tests',
  'testing',
  'ci',
  '.ci',
  '.circleci',
  '.github',
  '.binder',
  'binder',
  'tool',
  'tools',
  'script',
  'scripts',
  'docker',
  'deploy',
  'infra',
  'misc',
  'etc',
  'config',
])

/** Nearest to the root first. */
export function pythonProjects(tree: FileTree): readonly PythonProject[] {
  const directories = [...new Set(worthwhile(markers(tree)).map(homeOf))].toSorted(
    (a, b) => depth(a) - depth(b) || (a < b ? -1 : 1),
  )
  const projects = directories.map((directory) => readProject(tree, directory))
  const taken = new Set<string>()
  const found: PythonProject[] = []
  for (const project of projects) {
    if (taken.has(project.directory) || isAnnex(project, found)) continue
    const members = membersOf(project, projects)
    for (const { directory } of members) taken.add(directory)
    found.push({ ...project, members })
  }
  return found
}

const depth = (directory: string): number => (directory === '' ? 0 : directory.split('/').length)

function markers(tree: FileTree): readonly string[] {
  const found = tree.files.filter((file) => {
    const name = nameOf(file)
    if (name === 'setup.cfg') return isPackage(readIni(tree, file))
    if (name === 'pyproject.toml') return isProject(readToml(tree, file))
    if (MARKERS.includes(name)) return true
    return REQUIREMENTS.test(name) || CONDA.test(name) || isInRequirements(file)
  })
  const loose = tree.in('').filter((name) => PROGRAMS.test(name) || name.endsWith('.py'))
  // Settings at the root are those of a project there, unless the projects lie below.
  const settings =
    loose.length > 0 || found.length === 0 ? tree.in('').filter((name) => name === 'pyproject.toml') : []
  if (found.length > 0) return [...new Set([...found, ...settings])]
  return [...settings, ...loose]
}

/** It also holds the settings of linters, for projects that have nothing else to do with Python. */
function isPackage(ini: Ini | undefined): boolean {
  return ini?.has('metadata') === true || ini?.has('options') === true
}

/** Whether it says more than what linters are to do below its directory. */
function isProject(read: Read | undefined): boolean {
  if (!read || read.problem !== undefined) return read !== undefined
  const tools = Object.keys(tableAt(read.data, 'tool'))
  return (
    ['project', 'build-system', 'dependency-groups'].some((key) => Object.hasOwn(read.data, key)) ||
    tools.some((tool) => tool === 'poetry' || tool === 'pdm' || tool === 'uv')
  )
}

function isInRequirements(file: string): boolean {
  return nameOf(directoryOf(file)) === 'requirements' && /\.(?:txt|in)$/.test(file)
}

function homeOf(file: string): string {
  const directory = directoryOf(file)
  return isInRequirements(file) ? directoryOf(directory) : directory
}

/** What the files of one directory say, whether or not they make a project of it. */
export function readProject(tree: FileTree, directory: string): PythonProject {
  const toml = (name: string): ReadFile | undefined => {
    const file = within(directory, name)
    const read = readToml(tree, file)
    return read && { file, ...read }
  }
  const ini = (name: string): { readonly file: string; readonly ini: Ini } | undefined => {
    const file = within(directory, name)
    const read = readIni(tree, file)
    return read && { file, ini: read }
  }
  const setupPy = within(directory, 'setup.py')
  const text = readPlain(tree, setupPy)
  return {
    directory,
    evidence: evidenceOf(tree, directory),
    pyproject: toml('pyproject.toml'),
    pipfile: toml('Pipfile'),
    setupCfg: ini('setup.cfg'),
    setupPy: text === undefined ? undefined : { file: setupPy, text: text.slice(0, LONGEST_PROGRAM) },
    toxIni: ini('tox.ini'),
    requirementFiles: [
      ...tree
        .in(directory)
        .filter((name) => REQUIREMENTS.test(name))
        .map((name) => within(directory, name)),
      ...tree
        .in(within(directory, 'requirements'))
        .filter((name) => /\.(?:txt|in)$/.test(name))
        .map((name) => within(within(directory, 'requirements'), name)),
    ],
    members: [],
  }
}

function evidenceOf(tree: FileTree, directory: string): Evidence {
  const names = tree.in(directory)
  const name =
    MARKERS.find((one) => names.includes(one)) ??
    names.find((one) => REQUIREMENTS.test(one)) ??
    names.find((one) => CONDA.test(one)) ??
    names.find((one) => PROGRAMS.test(one)) ??
    names.find((one) => one.endsWith('.py'))
  if (name !== undefined) return { file: within(directory, name), said: name }
  const [first = ''] = tree.in(within(directory, 'requirements'))
  return { file: within(directory, `requirements/${first}`), said: `requirements/${first}` }
}

function isAnnex(project: PythonProject, found: readonly PythonProject[]): boolean {
  const hasOnlyRequirements = !project.pyproject && !project.pipfile && !project.setupPy && !project.setupCfg
  return (
    hasOnlyRequirements &&
    ANNEXES.has(nameOf(project.directory)) &&
    found.some(({ directory }) => isWithin(project.directory, directory))
  )
}

function membersOf(root: PythonProject, projects: readonly PythonProject[]): readonly PythonProject[] {
  const workspace = tableAt(root.pyproject?.data, 'tool', 'uv', 'workspace')
  const patterns = textsAt(workspace, 'members').slice(0, 100)
  if (patterns.length === 0) return []
  const excluded = textsAt(workspace, 'exclude').slice(0, 100)
  return projects.filter((project) => {
    if (project === root || !project.pyproject || !isWithin(project.directory, root.directory)) return false
    const path = relativeTo(root.directory, project.directory)
    return isMember(path, [...patterns, ...excluded.map((pattern) => `!${pattern}`)])
  })
}

/** Whether its manifest makes a package of it, and not only settings of tools. */
export function buildSystem(
  project: PythonProject,
): { readonly backend: string; readonly needs: readonly string[] } | undefined {
  const data = project.pyproject?.data
  if (at(data, 'tool', 'poetry', 'package-mode') === false || at(data, 'tool', 'uv', 'package') === false)
    return undefined
  const system = data?.['build-system']
  if (isTable(system))
    return {
      backend:
        typeof system['build-backend'] === 'string' ? system['build-backend'] : 'setuptools.build_meta',
      needs: textsAt(system, 'requires'),
    }
  const isOldPackage = project.setupPy !== undefined || isPackage(project.setupCfg?.ini)
  return isOldPackage ? { backend: 'setuptools.build_meta', needs: [] } : undefined
}
