import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { PROJECT_FILE, parseUser, USER_FILE } from '../../config/config-files.ts'
import { projectJsonSchema } from '../../config/project/json-schema.ts'
import { parseProject } from '../../config/project/project-file.ts'
import { type Problem, problemsIn, whereOf } from '../../config/toml/problem.ts'
import { readSource } from '../../config/toml/toml-file.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { hasHidden, showHidden } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'

type Verb = (ctx: CommandContext, parsed: Parsed, words: readonly string[]) => Promise<number>

/** Each subcommand with the most words that may follow it. */
const VERBS: Readonly<Record<string, { readonly most: number; readonly run: Verb }>> = {
  check: { most: 1, run: check },
  schema: { most: 0, run: schema },
  explain: { most: 1, run: async (...call) => (await import('./config-explain.ts')).explainConfig(...call) },
  lock: {
    most: 0,
    run: async (ctx, parsed) => (await import('./config-explain.ts')).lockConfig(ctx, parsed),
  },
}

export const command: Command = {
  usage: [
    'agentpod config explain [KEY]',
    'agentpod config check [FILE]',
    'agentpod config lock',
    'agentpod config schema',
  ].join('\n       '),
  examples: [
    'agentpod config explain                 every choice, its source and the alternatives',
    'agentpod config explain node',
    'agentpod config lock                    write agentpod.lock',
    'agentpod config check                   check agentpod.toml here',
    'agentpod config check ../other',
    'agentpod config schema > agentpod.schema.json',
  ],
  options: {
    base: { value: 'BASE', help: 'explain: on this base instead' },
    image: { value: 'REF', help: 'explain: on this container image instead' },
    profile: { value: 'NAME', help: 'explain, lock: one of [profiles] in agentpod.toml' },
    ...JSON_OPTION,
  },
  verbs: Object.keys(VERBS),
  words: { min: 1, max: 2 },
  async run(ctx, parsed) {
    const [name = '', ...words] = parsed.words
    const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined
    if (verb && words.length <= verb.most) return verb.run(ctx, parsed, words)
    const near = verb ? undefined : nearest(name, Object.keys(VERBS))
    throw invalid(
      'words.unknown',
      `not a call: config ${parsed.words.join(' ')}`,
      near ? `did you mean \`agentpod config ${near}\`?` : command.usage,
    )
  },
}

async function schema({ terminal }: CommandContext): Promise<number> {
  terminal.out(JSON.stringify(projectJsonSchema(), null, 2))
  return 0
}

/** The exit code for an invalid file, the same as for wrong usage. */
const WRONG = 2

async function check(
  { terminal, cwd, home }: CommandContext,
  parsed: Parsed,
  [given = '.']: readonly string[],
): Promise<number> {
  const file = fileOf(given, cwd)
  const isUsers = resolve(cwd, file) === join(home.root, USER_FILE)
  const { problems, text } = problemsOf(file, resolve(cwd, file), isUsers)
  if (parsed.has('json')) terminal.out(JSON.stringify({ ok: problems.length === 0, problems }))
  else if (problems.length === 0) terminal.out(`${showHidden(file)} is valid`)
  else for (const problem of problems) for (const line of shown(problem, text)) terminal.out(line)
  return problems.length === 0 ? 0 : WRONG
}

/** A directory means the file in it. */
function fileOf(given: string, cwd: string): string {
  const isDirectory = statSync(resolve(cwd, given), { throwIfNoEntry: false })?.isDirectory() ?? false
  return isDirectory ? join(given, PROJECT_FILE) : given
}

interface Checked {
  readonly problems: readonly Problem[]
  readonly text: string
}

function problemsOf(file: string, path: string, isUsers: boolean): Checked {
  let text = ''
  try {
    const found = readSource(path, { isOurs: isUsers })
    if (found === undefined) throw missing(file)
    text = found
    if (isUsers) parseUser({ file, text })
    else parseProject({ file, text })
    return { problems: [], text }
  } catch (error) {
    const problems = problemsIn(error)
    if (!problems) throw error
    return { problems: problems.map((problem) => ({ ...problem, file })), text }
  }
}

function missing(file: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'file.missing',
    message: `no such file: ${file}`,
    hint: 'the file is optional: everything has a default',
  })
}

const WIDEST = 100
const BEFORE = 60

/** The problem, its source line with a mark below the position, and the hint. */
function shown(problem: Problem, text: string): string[] {
  const { line, column, message, hint } = problem
  const lines = [showHidden(`${whereOf(problem)}: ${message}`)]
  const source = line === undefined || text === '' ? undefined : text.split('\n')[line - 1]
  if (source !== undefined && column !== undefined) {
    const characters = [...source].map((one) => (isShown(one) ? one : ' '))
    const from = column > WIDEST - 10 ? column - 1 - BEFORE : 0
    const margin = ' '.repeat(String(line).length)
    lines.push(
      `  ${line} | ${characters.slice(from, from + WIDEST).join('')}`.trimEnd(),
      `  ${margin} | ${' '.repeat(column - 1 - from)}^`,
    )
  }
  return hint === undefined ? lines : [...lines, showHidden(`  hint: ${hint}`)]
}

/**
 * SECURITY: CF-02. Each character takes one column, and none moves the cursor or changes the writing
 * direction.
 */
function isShown(character: string): boolean {
  return !hasHidden(character)
}
