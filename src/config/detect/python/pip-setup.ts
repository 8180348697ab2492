/** Installs the dependencies of projects that only need pip. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import { iniAt } from '../project-files/ini-file.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { relativeTo } from '../project-files/paths.ts'
import {
  allDependencies,
  type DependencyGroup,
  declaredDependencies,
  iniList,
  isForDevelopment,
} from './dependencies.ts'
import { packageFiles } from './package-files.ts'
import type { PythonProject } from './project.ts'
import { normalizedName, type Requirement, type RequirementsFile, readRequirements } from './requirements.ts'

/** The command that installs the dependencies, and the dependencies that are known. */
export interface PipSetup {
  readonly runs: readonly string[]
  readonly inputs: readonly string[]
  /** Directories of the project that are installed along. */
  readonly local: readonly string[]
  readonly installsItself: boolean
  readonly variables: Readonly<Record<string, string>>
  readonly requirements: readonly Requirement[]
  readonly notes: readonly string[]
}

export const VENV = '[ -x .venv/bin/python ] || python3 -m venv .venv'
export const PIP = '.venv/bin/python -m pip install'
const MOST_NAMED = 300

export function pipSetup(tree: FileTree, project: PythonProject, isInstallable: boolean): PipSetup {
  const files = chosenFiles(tree, project)
  const said = declaredDependencies(project)
  const inFiles = files.flatMap(({ requirements }) => requirements)
  const wanted = [...said.extras, ...said.groups].filter(({ name }) => isForDevelopment(name))
  const tox = project.toxIni ? iniList(project.toxIni.file, iniAt(project.toxIni.ini, 'testenv', 'deps')) : []
  const named = distinct([...said.main, ...withOwnExtras(project, wanted, said.extras), ...tox], inFiles)
  const self = files.some(({ local }) => local.includes(project.directory))
  // Dependencies that only the build knows are installed by the build.
  const needsBuild = said.isDynamic && isInstallable && !self
  const words = [
    ...files
      .filter(({ isHashed }) => !isHashed)
      .map(({ path }) => `-r ${shellWord(fromHere(project, path))}`),
    ...(needsBuild ? [`-e ${shellWord(extrasOf(said.extras))}`] : []),
    ...named.map(({ text }) => shellWord(text)).slice(0, MOST_NAMED),
  ]
  const hashed = files
    .filter(({ isHashed }) => isHashed)
    .map(({ path }) => `${PIP} -r ${shellWord(fromHere(project, path))}`)
  const variables = needsBuild ? (packageFiles(tree, project)?.variables ?? '') : ''
  const installs = [...hashed, ...(words.length > 0 ? [`${variables}${PIP} ${words.join(' ')}`] : [])]
  return {
    runs: installs.length > 0 ? [VENV, ...installs] : [],
    inputs: [...files.flatMap((one) => one.files), joinPath(project.directory, 'pyproject.toml')],
    local: files.flatMap(({ local }) => local).filter((directory) => directory !== project.directory),
    installsItself: self || needsBuild,
    variables: {},
    requirements: [...inFiles, ...allDependencies(said), ...tox],
    notes: files.flatMap(({ notes }) => notes),
  }
}

/** `all = ["the-project[test,docs]"]` means other extras of the project, not another package of its name. */
function withOwnExtras(
  { pyproject, setupCfg }: PythonProject,
  wanted: readonly DependencyGroup[],
  extras: readonly DependencyGroup[],
): readonly Requirement[] {
  const own = textAt(pyproject?.data, 'project', 'name') ?? iniAt(setupCfg?.ini, 'metadata', 'name')?.text
  const found: Requirement[] = []
  const seen = new Set<DependencyGroup>()
  const add = (group: DependencyGroup): void => {
    if (seen.has(group)) return
    seen.add(group)
    for (const requirement of group.requirements) {
      if (own === undefined || requirement.name !== normalizedName(own)) found.push(requirement)
      else for (const one of extras) if (requirement.extras.includes(normalizedName(one.name))) add(one)
    }
  }
  for (const group of wanted) add(group)
  return found
}

function extrasOf(extras: readonly DependencyGroup[]): string {
  const names = extras.flatMap(({ name }) => (isForDevelopment(name) && /^[\w.-]+$/.test(name) ? [name] : []))
  return names.length > 0 ? `.[${names.join(',')}]` : '.'
}

function fromHere({ directory }: PythonProject, path: string): string {
  return relativeTo(directory, path)
}

/** A requirement that a file pins is not repeated without its version. */
function distinct(wanted: readonly Requirement[], known: readonly Requirement[]): readonly Requirement[] {
  const seen = new Set(known.map(({ name }) => name))
  return wanted.filter(({ name, text }) => {
    if (seen.has(name) || seen.has(text)) return false
    seen.add(text)
    return true
  })
}

/** Words in names of requirements files for general use, development or tests. */
const USUAL: ReadonlySet<string> = new Set(
  'base common core main default app requirements dev devel develop development local test tests testing ci'.split(
    ' ',
  ),
)

/**
 * The requirements files of the project and of development, each once. Of files that pin different versions
 * for other purposes, only the usual ones are combined.
 */
function chosenFiles(tree: FileTree, project: PythonProject): readonly RequirementsFile[] {
  const texts = project.requirementFiles.filter((file) => file.endsWith('.txt'))
  const all = texts.length > 0 ? texts : project.requirementFiles.filter((file) => file.endsWith('.in'))
  const usual = all.filter((file) =>
    wordsOf(file).every((word) => USUAL.has(word.toLowerCase()) || word === 'requirement'),
  )
  const chosen = usual.length > 0 ? usual : all.slice(0, 1)
  const read = chosen.slice(0, 20).map((file) => readRequirements(tree, file))
  const included = new Set(read.flatMap(({ path, files }) => files.filter((file) => file !== path)))
  // Two that include each other would otherwise both be left out.
  const outer = read.filter(({ path }) => !included.has(path))
  const files = outer.length > 0 ? outer : read.slice(0, 1)
  return files.toSorted((a, b) => rank(a.path) - rank(b.path) || (a.path < b.path ? -1 : 1))
}

function rank(path: string): number {
  return nameOf(path) === 'requirements.txt' ? -1 : directoryOf(path).length
}

function wordsOf(file: string): readonly string[] {
  return nameOf(file)
    .replace(/\.\w+$/, '')
    .split(/[-_.]/)
}
