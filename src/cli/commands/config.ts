import { lstatSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { composeFilesIn, readCompose } from '../../config/compose/compose-project.ts'
import { PROJECT_FILE, parseUser, USER_FILE } from '../../config/config-files.ts'
import { parseDevcontainer } from '../../config/devcontainer/devcontainer-file.ts'
import { isDevcontainerName } from '../../config/devcontainer/locate.ts'
import { placeText } from '../../config/evidence.ts'
import { projectJsonSchema } from '../../config/project/json-schema.ts'
import { parseProject } from '../../config/project/project-file.ts'
import { type Problem, problemsIn, whereOf } from '../../config/toml/problem.ts'
import { readSource } from '../../config/toml/toml-file.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { hasHidden, showHidden } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'
import { COMPOSE_OPTIONS, DEVCONTAINER_OPTIONS, JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { refuse } from '../args/refuse.ts'
import type { Command, CommandContext } from '../command.ts'

type Verb = (ctx: CommandContext, parsed: Parsed, words: readonly string[]) => Promise<number>

const OF_FILES = [...Object.keys(COMPOSE_OPTIONS), ...Object.keys(DEVCONTAINER_OPTIONS)]

interface ConfigVerb {
  /** The most words that may follow it. */
  readonly most: number
  /** Its options besides --json. */
  readonly options: readonly string[]
  readonly run: Verb
}

const VERBS: Readonly<Record<string, ConfigVerb>> = {
  check: { most: 1, options: [], run: check },
  schema: { most: 0, options: [], run: schema },
  explain: {
    most: 1,
    options: ['base', 'image', 'profile', ...OF_FILES],
    run: async (...call) => (await import('./config-explain.ts')).explainConfig(...call),
  },
  compose: {
    most: 0,
    options: ['profile'],
    run: async (ctx, parsed) => (await import('./config-explain.ts')).composeConfig(ctx, parsed),
  },
  lock: {
    most: 0,
    options: ['profile', ...OF_FILES],
    run: async (ctx, parsed) => (await import('./config-explain.ts')).lockConfig(ctx, parsed),
  },
}

export const command: Command = {
  usage: [
    'agentpod config explain [KEY]',
    'agentpod config check [FILE]',
    'agentpod config lock',
    'agentpod config compose',
    'agentpod config schema',
  ].join('\n       '),
  examples: [
    'agentpod config explain                 every choice, its source and the alternatives',
    'agentpod config explain node',
    'agentpod config lock                    write agentpod.lock',
    'agentpod config check                   check agentpod.toml, devcontainer.json and compose files here',
    'agentpod config check ../other',
    'agentpod config check .devcontainer/devcontainer.json',
    'agentpod config check compose.yaml',
    'agentpod config compose > compose.yaml  the same environment for Docker',
    'agentpod config schema > agentpod.schema.json',
  ],
  options: {
    base: { value: 'BASE', help: 'explain: on this base instead' },
    image: { value: 'REF', help: 'explain: on this container image instead' },
    profile: { value: 'NAME', help: 'explain, lock, compose: one of [profiles] in agentpod.toml' },
    ...COMPOSE_OPTIONS,
    ...DEVCONTAINER_OPTIONS,
    ...JSON_OPTION,
  },
  verbs: Object.keys(VERBS),
  words: { min: 1, max: 2 },
  async run(ctx, parsed) {
    const [name = '', ...words] = parsed.words
    const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined
    if (verb && words.length <= verb.most) {
      const unfit = Object.keys(command.options).filter(
        (one) => one !== 'json' && !verb.options.includes(one),
      )
      refuse(parsed, unfit, `does not apply to \`agentpod config ${name}\``, HINTS[name] ?? 'leave it out')
      return verb.run(ctx, parsed, words)
    }
    const near = verb ? undefined : nearest(name, Object.keys(VERBS))
    throw invalid(
      'words.unknown',
      `not a call: config ${parsed.words.join(' ')}`,
      near ? `did you mean \`agentpod config ${near}\`?` : command.usage,
    )
  },
}

const HINTS: Readonly<Record<string, string>> = {
  check: 'it checks whole files, with every service; `agentpod config explain` takes the option',
}

async function schema({ terminal }: CommandContext): Promise<number> {
  terminal.out(JSON.stringify(projectJsonSchema(), null, 2))
  return 0
}

/** The exit code for an invalid file, the same as for wrong usage. */
const WRONG = 2

async function check(ctx: CommandContext, parsed: Parsed, [given = '.']: readonly string[]): Promise<number> {
  const { terminal, cwd, home } = ctx
  const checked: Checked[] = []
  for (const file of filesOf(given, cwd)) {
    const isUsers = resolve(cwd, file) === join(home.root, USER_FILE)
    checked.push(
      COMPOSE_NAME.test(file)
        ? await composeProblems(ctx, file)
        : problemsOf(file, resolve(cwd, file), isUsers),
    )
  }
  const problems = checked.flatMap((one) => one.problems)
  if (parsed.has('json')) terminal.out(JSON.stringify({ ok: problems.length === 0, problems }))
  else
    for (const { file, text, problems: own, notes = [] } of checked) {
      if (own.length === 0) terminal.out(`${showHidden(file)} is valid`)
      for (const note of notes) terminal.out(terminal.dim(showHidden(`note: ${note}`)))
      for (const problem of own)
        for (const line of shown(problem, problem.file === file ? text : '')) terminal.out(line)
    }
  return problems.length === 0 ? 0 : WRONG
}

/** A directory means every file in it that this command knows. */
function filesOf(given: string, cwd: string): string[] {
  const directory = resolve(cwd, given)
  const isDirectory = statSync(directory, { throwIfNoEntry: false })?.isDirectory() ?? false
  if (!isDirectory) return [given]
  const has = (file: string): boolean =>
    lstatSync(join(directory, file), { throwIfNoEntry: false }) !== undefined
  const names = [PROJECT_FILE, ...devcontainersIn(directory), ...composeFilesIn('', has).slice(0, 1)].filter(
    has,
  )
  if (names.length === 0) throw missing(join(given, PROJECT_FILE))
  return names.map((name) => join(given, name))
}

/** In the places that the specification names. */
function devcontainersIn(directory: string): string[] {
  const folder = join(directory, '.devcontainer')
  const isFolder = lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false
  const inner = isFolder ? readdirSync(folder, { withFileTypes: true }) : []
  return [
    '.devcontainer/devcontainer.json',
    '.devcontainer.json',
    ...inner.filter((one) => one.isDirectory()).map(({ name }) => `.devcontainer/${name}/devcontainer.json`),
  ]
}

interface Checked {
  readonly file: string
  readonly problems: readonly Problem[]
  readonly text: string
  /** What is not used. */
  readonly notes?: readonly string[] | undefined
}

function problemsOf(file: string, path: string, isUsers: boolean): Checked {
  let text = ''
  try {
    const found = readSource(path, { isOurs: isUsers })
    if (found === undefined) throw missing(file)
    text = found
    if (isUsers) parseUser({ file, text })
    else if (isDevcontainerName(file)) parseDevcontainer({ file, text })
    else parseProject({ file, text })
    return { file, problems: [], text }
  } catch (error) {
    const problems = problemsIn(error)
    if (!problems) throw error
    return { file, problems: problems.map((problem) => ({ ...problem, file })), text }
  }
}

const COMPOSE_NAME = /(?:^|\/)(?:docker-)?compose(?:[.-][\w.-]+)?\.ya?ml$/

/**
 * A compose file with its override, as `run` and `dev` read them.
 *
 * SECURITY: CF-02, CF-05. Only files in its directory are read, and none that git ignores.
 */
async function composeProblems(ctx: CommandContext, file: string): Promise<Checked> {
  const directory = dirname(file)
  const text = readSource(resolve(ctx.cwd, file))
  if (text === undefined) throw missing(file)
  const root = realpathSync(resolve(ctx.cwd, directory))
  const [{ openProject }, { treeOf }] = await Promise.all([
    import('../../workbench/project/open-project.ts'),
    import('../../workbench/environment/detect-project.ts'),
  ])
  const tree = treeOf(await openProject(ctx, 'user', root))
  // The file itself was named, so it is read even where git ignores it.
  const read = (path: string): string | undefined => (path === basename(file) ? text : tree.read(path))
  const found = composeFilesIn('', (name) => read(name) !== undefined)
  const files = found.includes(basename(file)) ? found : [basename(file)]
  try {
    const { notes } = readCompose({ files, read, isLeftOut: (path) => tree.isLeftOut(path) })
    const said = notes.map((one) => `${join(directory, placeText(one))}: ${one.said}`)
    return { file, problems: [], text, notes: said }
  } catch (error) {
    const problems = problemsIn(error)
    if (!problems) throw error
    return { file, problems: problems.map((one) => ({ ...one, file: join(directory, one.file) })), text }
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
