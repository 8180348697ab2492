/** Tasks of mise: in its file, with the tasks that they depend on, and as files of their own. */
import { commandSequence } from '../../../util/shell/shell-script.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { isObject, type JsonObject, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { linesIn } from '../project-files/find-lines.ts'
import { shortQuote, textAt } from '../project-files/parsed-file.ts'
import { pathInProject, relativeTo } from '../project-files/paths.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { commandAt, evidenceOf, noteOthers, type SourceFile, unused, variablesAt } from './source-file.ts'
import { scriptsByVerb } from './verb-names.ts'

const DIRECTORIES = ['mise-tasks', '.mise-tasks', 'mise/tasks', '.mise/tasks', '.config/mise/tasks'] as const

export function readMiseTasks(tree: FileTree, format: FormatDraft, source: SourceFile): void {
  for (const [verb, name] of scriptsByVerb(Object.keys(objectAt(source.data, 'tasks')))) {
    const command = new TaskExpansion(tree, format, source, name).command()
    if (command && verb === 'setup') format.setup.push(command)
    else addCommand(format, verb, command)
  }
}

const MOST_DEPTH = 16
/** Of one verb, with every task that it needs. */
const MOST_TASKS = 100
const LONGEST_RUN = 32 * 1024

const NOTED = 'options of tasks other than run, file, depends, dir and env are not read'
const SAYS_NOTHING = [
  'alias', 'description', 'hide', 'interactive', 'outputs', 'quiet', 'raw', 'run_windows', 'silent', 'sources',
] // biome-ignore format: a list of words

/** A part of a task that cannot be run, so that nothing of the task may be. */
class Unusable extends Error {}

/**
 * SECURITY: ENV-12. One task with the tasks that it needs, each before it. As in mise, a task that several
 * others depend on runs once. A file with many such tasks would otherwise become a command of any length.
 */
class TaskExpansion {
  readonly #tree: FileTree
  readonly #format: FormatDraft
  readonly #source: SourceFile
  readonly #root: string
  /** Tasks that have run before the next one. */
  readonly #done = new Set<string>()
  #count = 0
  #length = 0

  constructor(tree: FileTree, format: FormatDraft, source: SourceFile, root: string) {
    this.#tree = tree
    this.#format = format
    this.#source = source
    this.#root = root
  }

  /** Undefined, with a note, if it cannot be run. */
  command(): FoundCommand | undefined {
    const path = ['tasks', this.#root]
    try {
      const runs = this.#runsOf(this.#root, [])
      if (runs.length === 0) return undefined
      return { run: sequence(runs), evidence: evidenceOf(this.#source, path, `[tasks] ${this.#root}`) }
    } catch (error) {
      if (!(error instanceof Unusable)) throw error
      unused(this.#format, this.#source, path, error.message)
      return undefined
    }
  }

  #runsOf(name: string, above: readonly string[]): string[] {
    const quoted = shortQuote(name, 40)
    if (above.includes(name)) throw new Unusable(`the task ${quoted} depends on itself`)
    if (above.length >= MOST_DEPTH) throw new Unusable('its dependencies are nested too deeply')
    if (++this.#count > MOST_TASKS) throw new Unusable(`it runs more than ${MOST_TASKS} tasks`)
    const tasks = objectAt(this.#source.data, 'tasks')
    if (!Object.hasOwn(tasks, name)) throw new Unusable(`there is no task ${quoted}`)
    const written = tasks[name]
    const task: JsonObject = isObject(written) ? written : { run: written }
    const below = [...above, name]
    const before = this.#namesIn(task['depends'], `depends of the task ${quoted}`).flatMap((one) =>
      this.#done.has(one) ? [] : this.#runsOf(one, below),
    )
    const own = this.#ownRuns(name, task, below)
    this.#done.add(name)
    if (isObject(written))
      noteOthers(this.#format, this.#source, ['tasks', name], {
        used: ['run', 'file', 'depends', 'dir', 'env', ...SAYS_NOTHING],
        why: { depends_post: NOTED, shell: NOTED, tools: NOTED, usage: NOTED, wait_for: NOTED },
      })
    return [...before, ...own]
  }

  #namesIn(value: unknown, what: string): readonly string[] {
    const list: readonly unknown[] = Array.isArray(value) ? value : value === undefined ? [] : [value]
    if (list.length > MOST_TASKS) throw new Unusable(`${what} has more than ${MOST_TASKS} tasks`)
    return list.map((one) => {
      const name =
        typeof one === 'string' ? one : isObject(one) && !one['args'] ? textAt(one, 'task') : undefined
      if (name === undefined) throw new Unusable(`${what} is not a list of names`)
      return name
    })
  }

  /** The task's own commands, in its directory and with its variables. */
  #ownRuns(name: string, task: JsonObject, above: readonly string[]): string[] {
    const written = textAt(task, 'dir')?.replace(/^\{\{ ?config_root ?\}\}\/?/, '') ?? ''
    const directory = pathInProject('', written)
    if (directory === undefined) throw new Unusable(`dir of the task ${name} leads out of the project`)
    const file = textAt(task, 'file')
    const runs = [
      ...this.#runLines(name, task, above),
      ...(file === undefined ? [] : [this.#fileRun(file, directory)]),
    ]
    const variables = isObject(task['env'])
      ? variablesAt(this.#format, this.#source, ['tasks', name, 'env'])
      : []
    const exports = variables.map((one) => `export ${one.name}=${shellWord(one.value)}\n`).join('')
    const text = [exports, ...runs].join('\n')
    this.#length += text.length
    if (this.#length > LONGEST_RUN) throw new Unusable(`it is longer than ${LONGEST_RUN} characters`)
    if (/\{\{|\$\{?usage_/.test(text))
      throw new Unusable('it uses templates of mise, which are not evaluated')
    if (runs.length === 0 || (directory === '' && exports === '')) return runs
    const change = directory === '' ? '' : `cd ${shellWord(`./${directory}`)} || exit\n`
    return [`(\n${change}${exports}${sequence(runs)}\n)`]
  }

  /** `run` is a command, or a list of commands and of tasks. */
  #runLines(name: string, { run }: JsonObject, above: readonly string[]): string[] {
    const list: readonly unknown[] = Array.isArray(run) ? run : run === undefined ? [] : [run]
    if (list.length > MOST_TASKS) throw new Unusable(`it has more than ${MOST_TASKS} commands`)
    const isTable = isObject(objectAt(this.#source.data, 'tasks')[name])
    return list.flatMap((one, at): string[] => {
      if (isObject(one)) {
        const names = this.#namesIn(one['tasks'] ?? one, `run of the task ${shortQuote(name, 40)}`)
        return names.flatMap((other) => this.#runsOf(other, above))
      }
      const path = ['tasks', name, ...(isTable ? ['run'] : []), ...(Array.isArray(run) ? [at] : [])]
      if (one === '') return []
      const command = commandAt(this.#format, this.#source, path)
      if (!command) throw new Unusable(`a command of the task ${shortQuote(name, 40)} cannot be used`)
      return [inInterpreter(command.run)]
    })
  }

  #fileRun(written: string, directory: string): string {
    const file = pathInProject('', written)
    if (file === undefined || file === '') throw new Unusable('the path of its file leads out of the project')
    if (!this.#tree.has(file)) throw new Unusable(`the project has no file ${shortQuote(file, 60)}`)
    const program = interpreterOf(linesIn(this.#tree, file)[0]?.text ?? '')
    if (!program) throw new Unusable(`the first line of ${shortQuote(file, 60)} names no plain program`)
    return scriptRun(program, relativeTo(directory, file))
  }
}

/** As in mise, the first command that fails is the last. */
function sequence(runs: readonly string[]): string {
  const [only = '', ...others] = runs
  return others.length === 0 ? only : commandSequence(runs)
}

const WORD = /^[\w./=:@+-]{1,60}$/

/** The words of a `#!` line, `sh` without one. Undefined if they are not plain. */
function interpreterOf(line: string): readonly string[] | undefined {
  if (!line.startsWith('#!')) return ['sh']
  const words = line
    .slice(2, 200)
    .trim()
    .split(/[ \t]+/)
  const isEnv = /^(?:\/usr)?\/bin\/env$/.test(words[0] ?? '')
  const program = isEnv ? words.slice(words[1] === '-S' ? 2 : 1) : words
  const [first = '-'] = program
  return first.startsWith('-') || !program.every((word) => WORD.test(word)) ? undefined : program
}

function scriptRun(program: readonly string[], path: string): string {
  return [...program, path.startsWith('../') ? path : `./${path}`].map(shellWord).join(' ')
}

/** A command that begins with `#!` is a script for that program; mise ends others at the first failure. */
function inInterpreter(run: string): string {
  if (!run.startsWith('#!')) return run.includes('\n') ? `set -e\n${run}` : run
  const program = interpreterOf(run.split('\n', 1)[0] ?? '')
  const name = program?.[0]?.split('/').at(-1) ?? ''
  const flag = /^(?:ba|da|z)?sh$|^python3?$/.test(name)
    ? '-c'
    : /^(?:node|perl|ruby)$/.test(name)
      ? '-e'
      : undefined
  if (!program || flag === undefined)
    throw new Unusable('the first line of its command names a program that takes no script as an argument')
  return [...program, flag, run].map(shellWord).join(' ')
}

/** Files of tasks: the name is the path, with `:` for each directory. */
export function readMiseTaskFiles(tree: FileTree): readonly FormatFile[] {
  return DIRECTORIES.flatMap((directory) => taskFiles(tree, directory))
}

function taskFiles(tree: FileTree, directory: string): readonly FormatFile[] {
  const byName = new Map(
    tree.below(directory).map((path) => {
      const name = path.slice(directory.length + 1).replace(/\.\w{1,20}$/, '')
      return [name.replaceAll('/', ':'), path] as const
    }),
  )
  return [...scriptsByVerb([...byName.keys()])].map(([verb, name]) => {
    const path = byName.get(name) ?? ''
    const format = newFormat(path, 'mise')
    const lines = linesIn(tree, path).slice(0, 50)
    const header = lines.find(({ text }) => isHeader(text))
    if (header)
      format.notes.push(
        `${path}:${header.number}: ${shortQuote(header.text, 60)} is not used: options in task files are not read`,
      )
    const program = interpreterOf(lines[0]?.text ?? '')
    if (!program) {
      format.notes.push(`${path}:1: the task ${name} is not used: its first line names no plain program`)
      return format
    }
    const evidence = { file: path, line: 1, said: shortQuote(`the task ${name}`) }
    const command = { run: scriptRun(program, path), evidence }
    if (verb === 'setup') format.setup.push(command)
    else addCommand(format, verb, command)
    return format
  })
}

function isHeader(line: string): boolean {
  if (line.startsWith('#USAGE')) return true
  return /^(?:#|\/\/) ?\[?MISE\]? /.test(line) && /\b(?:depends|dir|usage)\b/.test(line)
}
