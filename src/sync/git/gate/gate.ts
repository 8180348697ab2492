/**
 * Finds the files of a result that tools run later on the host, and that need the user's approval before they
 * become part of a branch (GT-14). Pure: everything it needs was read before. It decides by names and
 * contents, and gates rather too many files than too few.
 */
import { dirname, join, normalize } from 'node:path/posix'
import { isHead, isHeadName, isInRepository, isRepositoryName } from '../../bare-repository.ts'
import { foldedParts } from '../../folded-name.ts'
import { staysInside } from '../../untar.ts'
import { EXECUTABLE_MODE, LINK_MODE } from '../plumbing/compare-trees.ts'
import { GATE_RULES, type GateKind, type GateRule } from './gate-rules.ts'
import { INSTALL_HOOKS, runParts, scriptsOf } from './manifests.ts'

export interface GatedFile {
  readonly path: string
  readonly kind: GateKind
  /** Completes a sentence that begins with the file's name. */
  readonly why: string
}

export interface GateChange {
  readonly path: string
  /** Modes in git's notation; undefined if there is no file. */
  readonly before: string | undefined
  readonly after: string | undefined
}

export interface GateInput {
  readonly changes: readonly GateChange[]
  /** The text of a file, or the target of a link. Undefined if there is none or it is not text. */
  readonly before: (path: string) => string | undefined
  readonly after: (path: string) => string | undefined
  /** Unchanged files that may name changed ones, such as hooks: `mayName` says which. */
  readonly standing: readonly string[]
  /** The directory that the user's git takes hooks from, relative to the project. */
  readonly hooksPath?: string | undefined
  /** Directories of the result that git would take for repositories, as `bareRepositories` finds them. */
  readonly repositories?: ReadonlySet<string> | undefined
}

/** In the order of the changes. */
export function gateOf(input: GateInput): GatedFile[] {
  const gated = new Map<string, GatedFile>()
  for (const change of input.changes) {
    const found = gateOne(change, input)
    if (found) gated.set(change.path, found)
  }
  addNamed(input, gated)
  return input.changes.flatMap(({ path }) => gated.get(path) ?? [])
}

function gateOne(change: GateChange, input: GateInput): GatedFile | undefined {
  const { path, after } = change
  const repository = gateRepository(change, input)
  if (repository !== undefined) return { path, kind: 'git', why: repository }
  const rule = ruleFor(path, input.hooksPath)
  const why = rule && reasonOf(rule, change, input)
  if (rule && why !== undefined) return { path, kind: rule.kind, why }
  if (after !== LINK_MODE) return undefined
  const target = input.after(path)
  if (target !== undefined && leadsInside(path, target)) return undefined
  return { path, kind: 'link', why: 'is a link that points outside the project' }
}

/** SECURITY: GT-15. HEAD alone is gated too: two results could each bring half of a repository. */
function gateRepository({ path, after }: GateChange, input: GateInput): string | undefined {
  if (input.repositories && isInRepository(path, input.repositories))
    return 'is part of a git repository, whose settings can name programs that git runs'
  if (after === undefined || !isRepositoryName(path)) return undefined
  const isPart = !isHeadName(path) || after === LINK_MODE || isHead(input.after(path))
  return isPart ? 'makes git take its directory for a repository' : undefined
}

function reasonOf(rule: GateRule, change: GateChange, input: GateInput): string | undefined {
  if (rule.manifest === undefined) return change.after === undefined ? `${rule.why}; it is removed` : rule.why
  const parts = runParts(
    rule.manifest,
    change.before === undefined ? undefined : (input.before(change.path) ?? ''),
    change.after === undefined ? undefined : (input.after(change.path) ?? ''),
  )
  return parts.length === 0 ? undefined : `${rule.why}; changed: ${parts.join(', ')}`
}

/** A link that stays inside the project and does not point into git's own files. */
function leadsInside(path: string, target: string): boolean {
  return staysInside(path, target) && !foldedParts(join(dirname(path), target)).includes('.git')
}

/** The first rule that matches a path. */
export function ruleFor(path: string, hooksPath?: string): GateRule | undefined {
  const parts = foldedParts(path)
  const plain = parts.join('/')
  const hooks = hooksPath === undefined ? undefined : foldedParts(normalize(hooksPath)).join('/')
  if (hooks && plain.startsWith(`${hooks}/`)) return HOOKS_PATH
  const name = parts.at(-1) ?? ''
  return COMPILED.find(({ is, isNot }) => is(plain, name) && !isNot(plain, name))?.rule
}

const HOOKS_PATH: GateRule = { kind: 'hook', why: 'is run by git hooks', patterns: [] }

type Matches = (path: string, name: string) => boolean

const COMPILED = GATE_RULES.map((rule) => ({
  rule,
  is: matcherOf(rule.patterns),
  isNot: matcherOf(rule.except ?? []),
}))

/**
 * Matches tens of thousands of paths against hundreds of patterns, most of which concern only the file name.
 */
function matcherOf(patterns: readonly string[]): Matches {
  const names = anyOf(
    patterns.filter((pattern) => !pattern.includes('/')),
    (list) => `^(?:${list})$`,
  )
  const below = anyOf(
    patterns.filter((pattern) => pattern.startsWith('**/')).map((pattern) => pattern.slice(3)),
    (list) => `(?:^|/)(?:${list})`,
  )
  return (path, name) => names.test(name) || below.test(path)
}

function anyOf(patterns: readonly string[], around: (list: string) => string): RegExp {
  // An empty list matches nothing.
  return patterns.length === 0 ? /$^/ : new RegExp(around(patterns.map(patternOf).join('|')), 's')
}

function patternOf(pattern: string): string {
  const body = pattern
    .toLowerCase()
    .replaceAll(/[.+^$()|[\]\\]/g, '\\$&')
    .replaceAll('*', '[^/]*')
    .replaceAll(/\{([^}]*)\}/g, (_, list: string) => `(?:${list.replaceAll(',', '|')})`)
  return pattern.endsWith('/') ? `${body}.` : `${body}$`
}

/**
 * Kinds of files that run without the user starting them: what they name runs too, even if they did not
 * change.
 */
const RUN_UNASKED: ReadonlySet<GateKind> = new Set(['hook', 'agent', 'editor', 'shell', 'tool'])
const NAMES_NOTHING: ReadonlySet<GateKind> = new Set(['instructions', 'git', 'link', 'agentpod'])

/** Whether an unchanged file has to be read for the names in it. */
export function mayName(path: string, hooksPath?: string): boolean {
  const rule = ruleFor(path, hooksPath)
  return rule !== undefined && (RUN_UNASKED.has(rule.kind) || rule.manifest === 'node')
}

const MOST_ROUNDS = 10

/** Adds the scripts that gated files name, and the scripts that these name, until there are no more. */
function addNamed(input: GateInput, gated: Map<string, GatedFile>): void {
  const candidates = new Map(
    input.changes
      .filter((change) => isScript(change) && !gated.has(change.path))
      .map((change) => [change.path, change]),
  )
  const scripts = new Set(candidates.keys())
  const isNamer = ({ path }: GateChange): boolean => {
    const kind = gated.get(path)?.kind
    // A package.json with a harmless change still runs its install scripts.
    return kind === undefined ? mayName(path, input.hooksPath) : !NAMES_NOTHING.has(kind)
  }
  let namers = [...input.changes.filter(isNamer).map(({ path }) => path), ...input.standing]
  for (let round = 0; round < MOST_ROUNDS && namers.length > 0 && scripts.size > 0; round++) {
    const lookup = lookupOf(scripts)
    const next: string[] = []
    for (const namer of namers) {
      for (const path of namedBy(namer, input, gated.has(namer), lookup)) {
        if (!scripts.delete(path)) continue
        gated.set(path, { path, kind: 'script', why: `is named by ${namer}` })
        next.push(path)
      }
    }
    namers = next
  }
}

const SHELL_END = /(?:\.(?:sh|bash|zsh|fish|ksh|ps1|bat|cmd)|\/[^./]+|^[^./]+)$/i

/**
 * Unchanged shell scripts that unchanged files name: what these name runs as well. Imports of other languages
 * are not followed through unchanged files, or most of a project would need approval.
 */
export function namedShells(namers: readonly string[], input: GateInput, paths: readonly string[]): string[] {
  const lookup = lookupOf(new Set(paths.filter((path) => SHELL_END.test(path))))
  const found = new Set<string>()
  for (const namer of namers)
    if (ruleFor(namer, input.hooksPath)?.kind !== 'tool')
      for (const path of namedBy(namer, input, false, lookup)) found.add(path)
  return [...found]
}

const SCRIPT_END =
  /\.(?:sh|bash|zsh|fish|ksh|py|pyw|rb|pl|pm|php|lua|tcl|awk|sed|js|cjs|mjs|ts|cts|mts|jsx|tsx|ps1|psm1|bat|cmd|vbs|exe|com|jar|groovy|kts|r|jl|ex|exs|clj|bb|nu|so|dll|dylib|wasm|node|el|vim|nix)$/i

export function isScript({ path, after }: Pick<GateChange, 'path' | 'after'>): boolean {
  if (after === undefined || after === LINK_MODE) return false
  const name = path.slice(path.lastIndexOf('/') + 1)
  return after === EXECUTABLE_MODE || SCRIPT_END.test(name) || !name.slice(1).includes('.')
}

interface Lookup {
  readonly byName: ReadonlyMap<string, readonly string[]>
  readonly byLastName: ReadonlyMap<string, readonly string[]>
  readonly all: readonly string[]
}

/**
 * Names a script is called by: with or without extension, or by its directory if it is the main file there.
 */
function lookupOf(scripts: ReadonlySet<string>): Lookup {
  const [byName, byLastName] = [new Map<string, string[]>(), new Map<string, string[]>()]
  const add = (to: Map<string, string[]>, key: string, path: string): void => {
    const found = to.get(key)
    if (found) found.push(path)
    else to.set(key, [path])
  }
  for (const path of scripts) {
    const low = path.toLowerCase()
    const bare = low.replace(/\.[a-z0-9]{1,6}$/, '')
    add(byName, low, path)
    if (bare !== low) add(byName, bare, path)
    if (/(?:^|\/)(?:index|main|mod|__main__|__init__)$/.test(bare)) add(byName, dirname(low), path)
    add(byLastName, low.slice(low.lastIndexOf('/') + 1), path)
  }
  return { byName, byLastName, all: [...scripts] }
}

function namedBy(namer: string, input: GateInput, isGated: boolean, lookup: Lookup): Set<string> {
  const text = textToRead(namer, input, isGated)
  const found = new Set<string>()
  if (text === undefined) return found
  // A program that changes directory uses names relative to that directory.
  const isMoving = /\b(?:cd|pushd|chdir|cwd|working-directory|workdir|prefix)\b/i.test(text)
  for (const word of new Set(wordsOf(text)))
    for (const path of pathsOf(word, namer, isMoving, lookup)) found.add(path)
  return found
}

/**
 * The part of a file that can name something that runs: the commands of a package.json, the imports of a
 * tool's program. Of a file that runs only when the user asks, only new lines count: the user knew the old
 * ones.
 */
function textToRead(namer: string, input: GateInput, isGated: boolean): string | undefined {
  const text = input.after(namer)
  if (text === undefined) return undefined
  const rule = ruleFor(namer, input.hooksPath)
  if (rule?.manifest === 'node') return commandsOf(text, isGated ? input.before(namer) : text)
  if (rule?.kind === 'tool') return [...text.matchAll(LOADED)].map(([, name]) => name).join('\n')
  if (rule?.kind === 'hook') return `${text}\n${calledScripts(text, scriptsOf(input.after('package.json')))}`
  return rule === undefined || RUN_UNASKED.has(rule.kind) ? text : newLines(input.before(namer), text)
}

function newLines(before: string | undefined, after: string): string {
  const known = new Set(before?.split('\n'))
  return after
    .split('\n')
    .filter((line) => !known.has(line))
    .join('\n')
}

const LOADED =
  /\b(?:from|import|require|plugins?|extends|presets?|setupFiles|loader)\b[^'"\n]{0,40}['"]([^'"\n]{1,500})['"]/g

/** Commands that run when packages are installed, and commands that are new or changed. */
function commandsOf(after: string, before: string | undefined): string {
  const [scripts, known] = [scriptsOf(after), scriptsOf(before)]
  const isRun = (name: string, command: string): boolean =>
    INSTALL_HOOKS.includes(name) || known.get(name) !== command
  const commands = [...scripts]
    .filter(([name, command]) => isRun(name, command))
    .map(([, command]) => command)
  return `${commands.join('\n')}\n${calledScripts(commands.join('\n'), scripts)}`
}

/** The commands that a command runs through the package manager's names of scripts. */
function calledScripts(text: string, scripts: ReadonlyMap<string, string>): string {
  const called = new Set<string>()
  const open = [text]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const [, name = ''] of next.matchAll(
      /\b(?:npm|pnpm|yarn|bun|run|run-s|run-p)\s+(?:run\s+|-s\s+)?([\w:.-]+)/g,
    )) {
      const command = scripts.get(name)
      if (command === undefined || called.has(name)) continue
      called.add(name)
      open.push(...[`pre${name}`, name, `post${name}`].flatMap((one) => scripts.get(one) ?? []))
    }
  }
  return [...called]
    .flatMap((name) => [`pre${name}`, name, `post${name}`].flatMap((one) => scripts.get(one) ?? []))
    .join('\n')
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().split(/[\s"'`;&|()<>,=[\]{}#!]+/)
}

function pathsOf(
  word: string,
  namer: string,
  isMoving: boolean,
  { byName, byLastName, all }: Lookup,
): readonly string[] {
  if (word === '' || word.length > 500) return []
  // A variable most often stands for the top of the project.
  const path = word
    .replace(/^[$%@~][^/\\]{0,100}[/\\]/, '')
    .replaceAll('\\', '/')
    .replace(/^\/+/, '')
  const star = path.indexOf('*')
  if (star >= 0) {
    const directory = normalize(path.slice(0, path.lastIndexOf('/', star) + 1) || './').replace(/^\.\//, '')
    return directory === '' || directory.startsWith('..')
      ? []
      : all.filter((one) => one.toLowerCase().startsWith(directory))
  }
  const here = dirname(namer.toLowerCase())
  const names = [path, join(here, path), path.replaceAll('.', '/')].map((name) =>
    normalize(name).replace(/\/$/, ''),
  )
  const found = names.flatMap((name) => byName.get(name) ?? [])
  return isMoving ? [...found, ...(byLastName.get(path.slice(path.lastIndexOf('/') + 1)) ?? [])] : found
}
