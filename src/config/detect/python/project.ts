/** Finds Python projects and reads their manifests. */
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { type Ini, readIniFile } from '../project-files/ini-file.ts'
import { type ParsedFile, readTextFile, readTomlFile, stringsAt } from '../project-files/parsed-file.ts'
import { isWithin, relativeTo } from '../project-files/paths.ts'
import { isMember } from '../project-files/workspace-pattern.ts'

export interface PythonManifest extends ParsedFile {
  readonly file: string
}

export interface PythonProject {
  readonly directory: string
  readonly evidence: Evidence
  readonly pyproject?: PythonManifest | undefined
  readonly pipfile?: PythonManifest | undefined
  readonly setupCfg?: { readonly file: string; readonly ini: Ini } | undefined
  readonly setupPy?: { readonly file: string; readonly text: string } | undefined
  readonly toxIni?: { readonly file: string; readonly ini: Ini } | undefined
  /** Requirements files in it and in its `requirements` directory, relative to the project. */
  readonly requirementFiles: readonly string[]
  /** Members of a uv workspace. */
  readonly members: readonly PythonProject[]
}

/** Files that mark a Python project, the most specific first. */
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
/** What every name in MARKERS, REQUIREMENTS, CONDA and a directory of requirements ends with. */
const POSSIBLE = /\.(?:toml|lock|py|cfg|txt|in|ya?ml)$|^Pipfile/
/** Programs without a manifest. */
const PROGRAMS = /^(?:main|app|manage|server|bot|run|cli|wsgi|asgi|test_\w{1,60})\.py$/
/** Limits the text in which patterns search for lists. */
const LONGEST_PROGRAM = 100_000
/** Directories whose requirements belong to the project around them. */
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
  const directories = [...new Set(ownFiles(markers(tree)).map(homeOf))].toSorted(
    (a, b) => depth(a) - depth(b) || (a < b ? -1 : 1),
  )
  const projects = directories.map((directory) => readPythonProject(tree, directory))
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
  const found = tree.matching(POSSIBLE).filter((file) => {
    const name = nameOf(file)
    if (name === 'setup.cfg') return isPackage(readIniFile(tree, file))
    if (name === 'pyproject.toml') return isProject(readTomlFile(tree, file))
    if (MARKERS.includes(name)) return true
    return REQUIREMENTS.test(name) || CONDA.test(name) || isInRequirements(file)
  })
  const loose = tree.in('').filter((name) => PROGRAMS.test(name) || name.endsWith('.py'))
  // Settings at the root belong to a project there, unless the projects are below.
  const settings =
    loose.length > 0 || found.length === 0 ? tree.in('').filter((name) => name === 'pyproject.toml') : []
  if (found.length > 0) return [...new Set([...found, ...settings])]
  return [...settings, ...loose]
}

/** It also holds the settings of linters, for projects that have nothing else to do with Python. */
function isPackage(ini: Ini | undefined): boolean {
  return ini?.has('metadata') === true || ini?.has('options') === true
}

/** Whether it contains more than settings for linters. */
function isProject(read: ParsedFile | undefined): boolean {
  if (!read || read.problem !== undefined) return read !== undefined
  const tools = Object.keys(objectAt(read.data, 'tool'))
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

/** Reads the manifests of one directory, whether or not it is a project. */
export function readPythonProject(tree: FileTree, directory: string): PythonProject {
  const toml = (name: string): PythonManifest | undefined => {
    const file = joinPath(directory, name)
    const read = readTomlFile(tree, file)
    return read && { file, ...read }
  }
  const ini = (name: string): { readonly file: string; readonly ini: Ini } | undefined => {
    const file = joinPath(directory, name)
    const read = readIniFile(tree, file)
    return read && { file, ini: read }
  }
  const setupPy = joinPath(directory, 'setup.py')
  const text = readTextFile(tree, setupPy)
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
        .map((name) => joinPath(directory, name)),
      ...tree
        .in(joinPath(directory, 'requirements'))
        .filter((name) => /\.(?:txt|in)$/.test(name))
        .map((name) => joinPath(joinPath(directory, 'requirements'), name)),
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
  if (name !== undefined) return { file: joinPath(directory, name), said: name }
  const [first = ''] = tree.in(joinPath(directory, 'requirements'))
  return { file: joinPath(directory, `requirements/${first}`), said: `requirements/${first}` }
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
  const workspace = objectAt(root.pyproject?.data, 'tool', 'uv', 'workspace')
  const patterns = stringsAt(workspace, 'members').slice(0, 100)
  if (patterns.length === 0) return []
  const excluded = stringsAt(workspace, 'exclude').slice(0, 100)
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
  if (
    valueAt(data, 'tool', 'poetry', 'package-mode') === false ||
    valueAt(data, 'tool', 'uv', 'package') === false
  )
    return undefined
  const system = data?.['build-system']
  if (isObject(system))
    return {
      backend:
        typeof system['build-backend'] === 'string' ? system['build-backend'] : 'setuptools.build_meta',
      needs: stringsAt(system, 'requires'),
    }
  const isOldPackage = project.setupPy !== undefined || isPackage(project.setupCfg?.ini)
  return isOldPackage ? { backend: 'setuptools.build_meta', needs: [] } : undefined
}
