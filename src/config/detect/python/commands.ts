/** Commands of a Python project: test, lint and run. */
import { objectAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { Finding, FoundCommand, Verb } from '../finding.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { evidenceIn, lineAt, readTextFile } from '../project-files/parsed-file.ts'
import { relativeTo } from '../project-files/paths.ts'
import type { PythonManager } from './package-manager.ts'
import { buildSystem, type PythonProject } from './project.ts'
import type { Requirement } from './requirements.ts'
import { pythonServer } from './server.ts'
import { pythonStart } from './start.ts'

export interface PythonCommands {
  readonly commands: Partial<Record<Verb, FoundCommand>>
  readonly ports: NonNullable<Finding['ports']>
  /** Programs that the commands need and no manifest names. */
  readonly missing: readonly string[]
  readonly notes: readonly string[]
}

/** By name, for looking up. */
export type Needs = ReadonlyMap<string, Requirement>

const MOST_TESTS = 30

export function pythonCommands(
  tree: FileTree,
  project: PythonProject,
  manager: PythonManager,
  needs: Needs,
): PythonCommands {
  const test = testCommand(tree, project, needs)
  const lint = lintCommand(tree, project, needs)
  const build = buildCommand(project, manager, needs)
  const server = pythonServer(tree, project, needs)
  const start = server?.start ?? pythonStart(tree, project) ?? server?.dev
  const missing = [test?.missing, lint?.missing, server?.missing].filter((one) => one !== undefined)
  return {
    commands: {
      ...(server && { dev: server.dev }),
      ...(test && { test: test.command }),
      ...(lint && { lint: lint.command }),
      ...(build && { build }),
      ...(start && { start }),
    },
    ports: server ? [{ port: server.port, evidence: server.dev.evidence }] : [],
    missing,
    notes: [
      ...missing.map(
        (name) => `${name} is used but is not a declared dependency, so the newest version is installed`,
      ),
      ...runnerNotes(tree, project),
    ],
  }
}

function runnerNotes(tree: FileTree, { directory }: PythonProject): readonly string[] {
  return [
    ['tox.ini', 'tox runs the tests in its own environments, which are not used here'],
    ['noxfile.py', 'nox runs the tests in its own environments, which are not used here'],
  ].flatMap(([name = '', note = '']) => (tree.has(joinPath(directory, name)) ? [note] : []))
}

interface Answer {
  readonly command: FoundCommand
  readonly missing?: string | undefined
}

function testCommand(tree: FileTree, project: PythonProject, needs: Needs): Answer | undefined {
  const manage = joinPath(project.directory, 'manage.py')
  const configured = pytestSettings(tree, project)
  const pytest =
    needs.get('pytest') ??
    needs.get('pytest-django') ??
    needs.get('pytest-cov') ??
    needs.get('pytest-asyncio')
  if (tree.has(manage) && !configured && !needs.has('pytest-django'))
    return { command: { run: 'python manage.py test', evidence: { file: manage, said: 'manage.py' } } }
  if (pytest) return { command: { run: 'pytest', evidence: configured ?? pytest.evidence } }
  if (configured) return { command: { run: 'pytest', evidence: configured }, missing: 'pytest' }
  return testFiles(tree, project)
}

function pytestSettings(
  tree: FileTree,
  { directory, pyproject, setupCfg, toxIni }: PythonProject,
): Evidence | undefined {
  if (pyproject && Object.hasOwn(objectAt(pyproject.data, 'tool'), 'pytest'))
    return evidenceIn(pyproject.file, pyproject.text, ['[tool.pytest'], '[tool.pytest.ini_options]')
  if (setupCfg?.ini.has('tool:pytest')) return { file: setupCfg.file, said: '[tool:pytest]' }
  if (toxIni?.ini.has('pytest')) return { file: toxIni.file, said: '[pytest]' }
  const name = ['pytest.ini', '.pytest.ini', 'conftest.py', 'tests/conftest.py', 'test/conftest.py'].find(
    (one) => tree.has(joinPath(directory, one)),
  )
  return name === undefined ? undefined : { file: joinPath(directory, name), said: name }
}

/** The test framework that the test files use. */
function testFiles(tree: FileTree, { directory }: PythonProject): Answer | undefined {
  const files = tree
    .below(directory)
    .filter(
      (file) =>
        /^(?:test_[^/]*|[^/]*_test|tests?)\.py$/.test(nameOf(file)) &&
        !isIgnored(directoryOf(relativeTo(directory, file))),
    )
    .slice(0, MOST_TESTS)
  let unittest: Answer | undefined
  for (const file of files) {
    const text = (readTextFile(tree, file) ?? '').slice(0, 100_000)
    const plain = /^(?:import pytest\b|from pytest\b|(?:async )?def test_\w+\()/m.exec(text)
    if (plain)
      return {
        command: { run: 'pytest', evidence: { file, line: lineAt(text, plain.index), said: plain[0] } },
        missing: 'pytest',
      }
    const module = /^(?:import unittest\b|from unittest\b)/m.exec(text)
    if (module && !unittest)
      unittest = {
        command: {
          run: discovery(tree, directory, file),
          evidence: { file, line: lineAt(text, module.index), said: module[0] },
        },
      }
  }
  return unittest
}

/** Without a start it looks only into packages. */
function discovery(tree: FileTree, directory: string, file: string): string {
  const [top = ''] = relativeTo(directory, file).split('/')
  const isPackage = top.endsWith('.py') || tree.has(joinPath(joinPath(directory, top), '__init__.py'))
  const suffix = /_test\.py$/.test(file) ? " -p '*_test.py'" : ''
  return isPackage ? `python -m unittest discover${suffix}` : `python -m unittest discover -s ${top}${suffix}`
}

const LINTERS: readonly (readonly [name: string, run: string, files: readonly string[]])[] = [
  ['ruff', 'ruff check .', ['ruff.toml', '.ruff.toml']],
  ['flake8', 'flake8', ['.flake8']],
  ['pylint', 'pylint .', ['.pylintrc', 'pylintrc']],
  ['black', 'black --check .', []],
]

function lintCommand(tree: FileTree, project: PythonProject, needs: Needs): Answer | undefined {
  for (const [name, run] of LINTERS) {
    const need = needs.get(name)
    if (need) return { command: { run, evidence: need.evidence } }
  }
  for (const [name, run, files] of LINTERS) {
    const evidence = linterSettings(tree, project, name, files)
    if (evidence) return { command: { run, evidence }, missing: name }
  }
  return undefined
}

function linterSettings(
  tree: FileTree,
  { directory, pyproject, setupCfg, toxIni }: PythonProject,
  name: string,
  files: readonly string[],
): Evidence | undefined {
  if (pyproject && Object.hasOwn(objectAt(pyproject.data, 'tool'), name))
    return evidenceIn(pyproject.file, pyproject.text, [`[tool.${name}`], `[tool.${name}]`)
  for (const read of [setupCfg, toxIni])
    if (read?.ini.has(name)) return { file: read.file, said: `[${name}]` }
  const file = files.find((one) => tree.has(joinPath(directory, one)))
  return file === undefined ? undefined : { file: joinPath(directory, file), said: file }
}

function buildCommand(
  project: PythonProject,
  manager: PythonManager,
  needs: Needs,
): FoundCommand | undefined {
  const need = needs.get('build')
  if (need) return { run: 'python -m build', evidence: need.evidence }
  const isOwn = manager.name === 'uv' || manager.name === 'poetry' || manager.name === 'pdm'
  return isOwn && buildSystem(project)
    ? { run: `${manager.name} build`, evidence: manager.evidence }
    : undefined
}
