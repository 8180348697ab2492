/** Python: projects of every package manager, in whatever files they are described. */
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { Detector, Finding, FoundPackage } from '../finding.ts'
import { distinctPackages, packagesOf } from '../project-files/debian-packages.ts'
import { malformedNote, textAt } from '../project-files/parsed-file.ts'
import { MOST_FINDINGS } from '../project-files/paths.ts'
import { type Needs, pythonCommands } from './commands.ts'
import { isLocked } from './dependencies.ts'
import { type PythonManager, pythonManager } from './package-manager.ts'
import { type PythonProject, pythonProjects } from './project.ts'
import type { Requirement } from './requirements.ts'
import { pythonSetup } from './setup.ts'
import { PYTHON_NATIVE } from './system-packages.ts'
import { pythonVersions } from './versions.ts'

export const detectPython: Detector = (tree) =>
  pythonProjects(tree)
    .slice(0, MOST_FINDINGS)
    .map((project) => findingOf(tree, project))

function findingOf(tree: FileTree, project: PythonProject): Finding {
  const { directory, members } = project
  const manager = pythonManager(tree, project)
  const needs = byName(pythonSetup(tree, project, manager, []).requirements)
  const { commands, ports, missing, notes } = pythonCommands(tree, project, manager, needs)
  const setup = pythonSetup(tree, project, manager, missing)
  const venv = `$WORKSPACE/${joinPath(directory, '.venv')}`
  const sources = setup.sources.map((one) => (one === '' ? '$WORKSPACE' : `$WORKSPACE/${one}`))
  const allNotes = [...fileNotes(tree, project), ...setup.notes, ...notes]
  return {
    language: 'python',
    directory,
    evidence: project.evidence,
    versions: pythonVersions(tree, project),
    manager: { name: manager.name, evidence: manager.evidence, beat: manager.beat },
    tools: manager.tool ? [manager.tool] : [],
    lockfile: manager.lockfile,
    inputs: [...new Set(setup.inputs)].filter((file) => tree.has(file)).toSorted(),
    ...(setup.stubs.size > 0 && { stubs: stubsOf(setup.stubs) }),
    commands: {
      ...(setup.run !== undefined && { setup: { run: setup.run, evidence: manager.evidence } }),
      ...commands,
    },
    packages: nativePackages(tree, needs, manager),
    generated: [...(setup.run === undefined ? [] : [joinPath(directory, '.venv')]), ...setup.generated],
    presets: ['pip'],
    variables: {
      ...(setup.run !== undefined && { VIRTUAL_ENV: venv }),
      ...setup.variables,
      ...(sources.length > 0 && { PYTHONPATH: sources.join(':') }),
    },
    ...(setup.run !== undefined && { path: [`${venv}/bin`] }),
    ...(ports.length > 0 && { ports }),
    ...(members.length > 0 && { members: members.map(memberName) }),
    ...(allNotes.length > 0 && { notes: allNotes }),
  }
}

/** The first that names a dependency is quoted for it. */
function byName(requirements: readonly Requirement[]): Needs {
  const needs = new Map<string, Requirement>()
  for (const one of requirements) {
    const known = needs.get(one.name)
    needs.set(one.name, known ? { ...known, extras: [...known.extras, ...one.extras] } : one)
  }
  return needs
}

function stubsOf(stubs: ReadonlyMap<string, string>): Readonly<Record<string, string>> {
  return Object.fromEntries([...stubs].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function memberName({ directory, pyproject }: PythonProject): string {
  return textAt(pyproject?.data, 'project', 'name') ?? directory
}

function fileNotes(tree: FileTree, project: PythonProject): readonly string[] {
  const broken = [project, ...project.members].flatMap(({ pyproject, pipfile }) =>
    [pyproject, pipfile].flatMap((read) =>
      read?.problem === undefined ? [] : [malformedNote(read.file, read.problem)],
    ),
  )
  const conda = ['environment.yml', 'environment.yaml'].some((name) =>
    tree.has(joinPath(project.directory, name)),
  )
  return conda ? [...broken, 'environment.yml is for conda, which is not supported'] : broken
}

/** Not for packages in a variant that includes everything. */
function nativePackages(tree: FileTree, needs: Needs, { lockfile }: PythonManager): readonly FoundPackage[] {
  const found = [...PYTHON_NATIVE].flatMap(([name, packages]) => {
    const need = needs.get(name)
    if (name === 'psycopg' && (need?.extras.includes('binary') || isLocked(tree, lockfile, 'psycopg-binary')))
      return []
    if (need) return packagesOf(packages, need.evidence)
    return lockfile !== undefined && isLocked(tree, lockfile, name)
      ? packagesOf(packages, { file: lockfile, said: `name = "${name}"` })
      : []
  })
  return distinctPackages(found)
}
