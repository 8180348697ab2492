/**
 * Targets of task runners: Make, just and Task. They are fallbacks for commands that a language does not
 * have.
 */
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { FoundCommand, Verb } from '../finding.ts'
import { evidenceAt, type FileLine, linesIn } from '../project-files/find-lines.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'

/** A target that needs no arguments. */
export interface TaskTarget {
  readonly name: string
  readonly file: string
  readonly line: number | undefined
}

export const MAKEFILES = ['GNUmakefile', 'makefile', 'Makefile']
const JUSTFILES = ['justfile', 'Justfile', '.justfile']
const TASKFILES = [
  'Taskfile.yml',
  'taskfile.yml',
  'Taskfile.yaml',
  'taskfile.yaml',
  'Taskfile.dist.yml',
  'Taskfile.dist.yaml',
]

/** Target names for each verb, preferred ones first. */
const NAMES: Readonly<Record<Verb, readonly string[]>> = {
  setup: ['setup', 'install'],
  dev: ['dev'],
  test: ['test', 'check'],
  lint: ['lint'],
  build: ['build'],
  start: ['start', 'run'],
}

const PLAIN = /^[A-Za-z][\w.-]{0,60}$/

export function detectTasks(tree: FileTree, directory: string): Partial<Record<Verb, FoundCommand>> {
  const runners: readonly (readonly [string, readonly TaskTarget[]])[] = [
    ['make', makeTargets(tree, directory)],
    ['just', justTargets(tree, directory)],
    ['task', taskTargets(tree, directory)],
  ]
  const found: Partial<Record<Verb, FoundCommand>> = {}
  for (const [verb, names] of Object.entries(NAMES) as [Verb, readonly string[]][]) {
    const choices = runners.flatMap(([runner, targets]) =>
      names.flatMap((name) => {
        const target = targets.find((one) => one.name === name)
        return target ? [commandFor(runner, target)] : []
      }),
    )
    if (choices[0]) found[verb] = choices[0]
  }
  return found
}

function commandFor(runner: string, { name, file, line }: TaskTarget): FoundCommand {
  return { run: `${runner} ${name}`, evidence: evidenceAt(file, line, `${name}:`) }
}

function fileOf(tree: FileTree, directory: string, names: readonly string[]): string | undefined {
  return names.map((name) => joinPath(directory, name)).find((path) => tree.has(path))
}

/** The Makefile that Make would use. */
export function makefileIn(tree: FileTree, directory: string): string | undefined {
  return fileOf(tree, directory, MAKEFILES)
}

export function makeTargets(tree: FileTree, directory: string): readonly TaskTarget[] {
  const file = makefileIn(tree, directory)
  if (file === undefined) return []
  const lines = linesIn(tree, file)
  return lines.flatMap(({ text, number }, index) =>
    targetNames(text).flatMap((name) =>
      name === 'install' && installsIntoSystem(lines, index) ? [] : [{ name, file, line: number }],
    ),
  )
}

/** The names in `a b: c`; none for assignments and recipe lines. */
function targetNames(line: string): readonly string[] {
  if (/^[\s#]/.test(line)) return []
  const colon = line.indexOf(':')
  if (colon <= 0 || line[colon + 1] === '=' || line.slice(0, colon).includes('=')) return []
  if (line.startsWith('::=', colon) || line.startsWith(':::=', colon)) return []
  return line
    .slice(0, colon)
    .split(/[ \t]+/)
    .filter((name) => PLAIN.test(name))
}

/** In many Makefiles, `install` copies the build into the system and fetches nothing. */
function installsIntoSystem(lines: readonly FileLine[], index: number): boolean {
  for (const { text } of lines.slice(index + 1, index + 50)) {
    if (!/^[ \t]/.test(text) && text !== '') return false
    if (
      /DESTDIR|PREFIX|prefix|bindir|^[ \t]+[@+-]{0,3}install -|\$\(INSTALL|\/usr\/|cmake --install/.test(text)
    )
      return true
  }
  return false
}

/** Recipes that need no argument. */
function justTargets(tree: FileTree, directory: string): readonly TaskTarget[] {
  const file = fileOf(tree, directory, JUSTFILES)
  if (file === undefined) return []
  return linesIn(tree, file).flatMap(({ text, number }) => {
    if (/^[\s#[]/.test(text)) return []
    const colon = text.indexOf(':')
    if (colon <= 0 || text[colon + 1] === '=') return []
    const [first = '', ...parameters] = text
      .slice(0, colon)
      .split(/[ \t]+/)
      .filter(Boolean)
    const needs = parameters.some((word) => !word.includes('=') && !word.startsWith('*'))
    const name = first.replace(/^@/, '')
    return PLAIN.test(name) && !needs ? [{ name, file, line: number }] : []
  })
}

function taskTargets(tree: FileTree, directory: string): readonly TaskTarget[] {
  const file = fileOf(tree, directory, TASKFILES)
  const read = file === undefined ? undefined : readYamlFile(tree, file)
  if (file === undefined || !read) return []
  const tasks = objectAt(read.data, 'tasks')
  return Object.keys(tasks).flatMap((name) => {
    const task = tasks[name]
    if (!PLAIN.test(name) || (isObject(task) && String(valueAt(task, 'internal')) === 'true')) return []
    return [{ name, file, line: read.lineAt(['tasks', name]) }]
  })
}
