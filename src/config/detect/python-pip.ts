/** Dependencies of Python projects that nothing but pip is needed for. */

import { shellWord } from '../../util/shell-word.ts'
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { iniAt } from './ini-file.ts'
import { relativeTo } from './place.ts'
import { allDeclared, declared, type Group, iniList, isForDevelopment } from './python-dependencies.ts'
import { packageFiles } from './python-package.ts'
import type { PythonProject } from './python-project.ts'
import {
  normalized,
  type Requirement,
  type RequirementsFile,
  readRequirements,
} from './python-requirements.ts'
import { textAt } from './reading.ts'

/** What brings a project's dependencies, and what is known of them. */
export interface Plan {
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

export function pipPlan(tree: FileTree, project: PythonProject, isInstallable: boolean): Plan {
  const files = chosenFiles(tree, project)
  const said = declared(project)
  const inFiles = files.flatMap(({ requirements }) => requirements)
  const wanted = [...said.extras, ...said.groups].filter(({ name }) => isForDevelopment(name))
  const tox = project.toxIni ? iniList(project.toxIni.file, iniAt(project.toxIni.ini, 'testenv', 'deps')) : []
  const named = distinct([...said.main, ...withOwnExtras(project, wanted, said.extras), ...tox], inFiles)
  const self = files.some(({ local }) => local.includes(project.directory))
  // What only the build knows is installed by the build.
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
    inputs: [...files.flatMap((one) => one.files), within(project.directory, 'pyproject.toml')],
    local: files.flatMap(({ local }) => local).filter((directory) => directory !== project.directory),
    installsItself: self || needsBuild,
    variables: {},
    requirements: [...inFiles, ...allDeclared(said), ...tox],
    notes: files.flatMap(({ notes }) => notes),
  }
}

/** `all = ["the-project[test,docs]"]` means other extras of the project, not another package of its name. */
function withOwnExtras(
  { pyproject, setupCfg }: PythonProject,
  wanted: readonly Group[],
  extras: readonly Group[],
): readonly Requirement[] {
  const own = textAt(pyproject?.data, 'project', 'name') ?? iniAt(setupCfg?.ini, 'metadata', 'name')?.text
  const found: Requirement[] = []
  const seen = new Set<Group>()
  const add = (group: Group): void => {
    if (seen.has(group)) return
    seen.add(group)
    for (const requirement of group.requirements) {
      if (own === undefined || requirement.name !== normalized(own)) found.push(requirement)
      else for (const one of extras) if (requirement.extras.includes(normalized(one.name))) add(one)
    }
  }
  for (const group of wanted) add(group)
  return found
}

function extrasOf(extras: readonly Group[]): string {
  const names = extras.flatMap(({ name }) => (isForDevelopment(name) && /^[\w.-]+$/.test(name) ? [name] : []))
  return names.length > 0 ? `.[${names.join(',')}]` : '.'
}

function fromHere({ directory }: PythonProject, path: string): string {
  return relativeTo(directory, path)
}

/** A requirement that a file has with its version is not asked for again without. */
function distinct(wanted: readonly Requirement[], known: readonly Requirement[]): readonly Requirement[] {
  const seen = new Set(known.map(({ name }) => name))
  return wanted.filter(({ name, text }) => {
    if (seen.has(name) || seen.has(text)) return false
    seen.add(text)
    return true
  })
}

/** Words in the names of files that are for everybody, for working on the project, or for its tests. */
const USUAL: ReadonlySet<string> = new Set(
  'base common core main default app requirements dev devel develop development local test tests testing ci'.split(
    ' ',
  ),
)

/** The project's own requirements and those for development, each file once. Of files that pin the same things in other versions for other purposes only the usual ones go together. */
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
