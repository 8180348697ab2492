/** Deno projects and workspaces. */
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import type { ClientPreset } from '../../presets/catalog.ts'
import type { Detector, Finding, FoundCommand, Verb } from '../finding.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { manifestAnywhere } from '../project-files/manifests.ts'
import {
  evidenceIn,
  malformedNote,
  type ParsedFile,
  readJsoncFile,
  readTextFile,
  shortQuote,
  stringsAt,
  textAt,
} from '../project-files/parsed-file.ts'
import {
  directoriesMatching,
  MOST_FINDINGS,
  MOST_PARTS,
  nearestAbove,
  pathInProject,
} from '../project-files/paths.ts'
import { versionFileCandidates } from '../project-files/version-files.ts'

const FILES = ['deno.json', 'deno.jsonc']
const MAINS = ['main.ts', 'mod.ts', 'server.ts', 'src/main.ts', 'main.tsx', 'main.js']

/** Task names for each verb, preferred ones first. */
const TASKS: Readonly<Record<Exclude<Verb, 'setup'>, readonly string[]>> = {
  dev: ['dev', 'serve', 'watch'],
  test: ['test'],
  lint: ['lint', 'check'],
  build: ['build'],
  start: ['start', 'serve', 'preview'],
}

interface Deno {
  readonly directory: string
  readonly file: string
  readonly read: ParsedFile
  readonly members: readonly string[]
}

export const detectDeno: Detector = (tree) => {
  const all = ownFiles(FILES.flatMap((name) => tree.named(name))).flatMap((file) => denoOf(tree, file))
  if (all.length === 0) return loneProgram(tree)
  const members = new Set(all.flatMap((one) => one.members))
  return all
    .filter(({ directory }) => !members.has(directory))
    .slice(0, MOST_FINDINGS)
    .map((one) => findingOf(tree, one))
}

/** Code that only Deno understands. */
const DENOS =
  /\bDeno\.\w|\bfrom\s+["'](?:jsr:|npm:|https:\/\/(?:deno\.land|esm\.sh|jsr\.io))|\bimport\s+["'](?:jsr|npm):/

/** A program without a configuration file; it fetches its imports when it runs. */
function loneProgram(tree: FileTree): readonly Finding[] {
  const file = [...MAINS, 'index.ts', 'app.ts', 'src/index.ts'].find((name) =>
    DENOS.test(readTextFile(tree, name) ?? ''),
  )
  if (file === undefined || manifestAnywhere(tree) !== undefined) return []
  const text = readTextFile(tree, file) ?? ''
  const [said = file] = DENOS.exec(text) ?? []
  const evidence = evidenceIn(file, text, [said], said)
  const run = { run: `deno run -A ${file}`, evidence }
  return [
    {
      language: 'deno',
      directory: '',
      evidence,
      versions: versionsOf(tree, ''),
      manager: { name: 'deno', evidence, beat: [] },
      tools: [],
      inputs: [],
      commands: { dev: run, test: { run: 'deno test -A', evidence }, start: run },
      packages: [],
      generated: [],
      presets: /["']npm:/.test(text) ? ['npm'] : [],
      notes: ['there is no deno.json: imports are fetched when the program runs'],
    },
  ]
}

function denoOf(tree: FileTree, file: string): readonly Deno[] {
  const read = readJsoncFile(tree, file)
  if (!read) return []
  const directory = directoryOf(file)
  const named = [...stringsAt(read.data, 'workspace'), ...stringsAt(read.data, 'workspace', 'members')]
  const members = named
    .slice(0, MOST_PARTS)
    .flatMap((pattern) =>
      [...FILES, 'package.json'].flatMap((name) => directoriesMatching(tree, directory, pattern, name)),
    )
    .filter((member) => member !== directory)
  return [{ directory, file, read, members: [...new Set(members)] }]
}

function findingOf(tree: FileTree, deno: Deno): Finding {
  const { directory, file, read, members } = deno
  const lockfile = lockOf(tree, deno)
  const sources = sourcesOf(tree, deno, lockfile)
  const evidence = evidenceAt(file, 1, textAt(read.data, 'name') ?? 'a project of Deno')
  const notes: string[] = []
  if (read.problem) notes.push(malformedNote(file, read.problem))
  if (sources.has('jsr')) notes.push('packages come from JSR, which has no preset: allow its hosts')
  if (sources.has('https')) notes.push('modules are imported by URL: allow their hosts')
  if (!lockfile) notes.push('there is no deno.lock: the newest matching packages are installed')
  const presets: readonly ClientPreset[] = sources.has('npm') ? ['npm'] : []
  return {
    language: 'deno',
    directory,
    evidence,
    versions: versionsOf(tree, directory),
    manager: { name: 'deno', evidence, beat: [] },
    tools: [],
    ...(lockfile && { lockfile }),
    inputs: inputsOf(tree, deno, lockfile),
    commands: commandsOf(tree, deno, lockfile),
    packages: [],
    generated: generatedBy(tree, deno),
    presets,
    ...(members.length > 0 && { members: members.map((member) => nameOfMember(tree, member)) }),
    ...(notes.length > 0 && { notes }),
  }
}

function nameOfMember(tree: FileTree, member: string): string {
  const file = FILES.map((name) => joinPath(member, name)).find((path) => tree.has(path))
  return shortQuote((file && textAt(readJsoncFile(tree, file)?.data, 'name')) ?? member)
}

/** The lockfile may be turned off or have another path. */
function lockOf(tree: FileTree, { directory, read }: Deno): string | undefined {
  const setting = valueAt(read.data, 'lock')
  if (setting === false) return undefined
  const written = typeof setting === 'string' ? setting : textAt(setting, 'path')
  const path = pathInProject(directory, written ?? 'deno.lock')
  return path !== undefined && tree.has(path) ? path : undefined
}

function versionsOf(tree: FileTree, directory: string): readonly Candidate[] {
  const own = ['.dvmrc', '.deno-version'].flatMap((name): readonly Candidate[] => {
    const file = nearestAbove(tree, directory, [name])
    const found = file ? findLine(linesIn(tree, file), /^[ \t]*v?(\d[\w.-]{0,40})[ \t]*$/) : undefined
    if (!file || !found) return []
    return [
      {
        value: found.match[1] ?? '',
        rank: 'version file',
        evidence: evidenceAt(file, found.line, found.match[0]),
      },
    ]
  })
  return [...own, ...versionFileCandidates(tree, directory, 'deno')]
}

/** The sources of imports: those mapped in the configuration and its members, and the locked ones. */
function sourcesOf(
  tree: FileTree,
  { read, members }: Deno,
  lockfile: string | undefined,
): ReadonlySet<string> {
  const files = members.flatMap((member) => FILES.map((name) => joinPath(member, name)))
  const tables = [read.data, ...files.map((file) => readJsoncFile(tree, file)?.data)]
  const targets = tables.flatMap((data) => Object.values(objectAt(data, 'imports')))
  const found = new Set<string>()
  for (const target of targets) {
    const scheme = typeof target === 'string' ? /^([a-z]{3,5}):/.exec(target)?.[1] : undefined
    if (scheme) found.add(scheme)
  }
  const locked = lockfile ? readJsoncFile(tree, lockfile)?.data : undefined
  for (const [key, scheme] of [
    ['npm', 'npm'],
    ['jsr', 'jsr'],
    ['remote', 'https'],
  ] as const)
    if (isObject(valueAt(locked, key)) || isObject(valueAt(locked, 'packages', key))) found.add(scheme)
  if (tables.some((data) => isObject(valueAt(data, 'dependencies')))) found.add('npm')
  return found
}

function inputsOf(
  tree: FileTree,
  { directory, file, members, read }: Deno,
  lockfile: string | undefined,
): readonly string[] {
  const map = textAt(read.data, 'importMap')
  const all = [
    file,
    lockfile,
    map === undefined ? undefined : pathInProject(directory, map),
    ...[directory, ...members].flatMap((one) =>
      [...FILES, 'package.json', '.npmrc'].map((name) => joinPath(one, name)),
    ),
  ]
  return [...new Set(all)].filter((path): path is string => path !== undefined && tree.has(path))
}

/** Deno keeps packages in its own cache, unless the project wants node_modules. */
function generatedBy(tree: FileTree, { directory, read }: Deno): readonly string[] {
  const setting = valueAt(read.data, 'nodeModulesDir')
  const wants = setting === true || setting === 'auto' || setting === 'manual'
  const hasPackages = tree.has(joinPath(directory, 'package.json')) && setting !== false && setting !== 'none'
  return [
    ...(wants || hasPackages ? [joinPath(directory, 'node_modules')] : []),
    ...(valueAt(read.data, 'vendor') === true ? [joinPath(directory, 'vendor')] : []),
  ]
}

function commandsOf(
  tree: FileTree,
  { directory, file, read }: Deno,
  lockfile: string | undefined,
): Partial<Record<Verb, FoundCommand>> {
  const evidence = evidenceAt(file, 1, 'a project of Deno')
  const main = MAINS.find((name) => tree.has(joinPath(directory, name)))
  const run = main && {
    run: `deno run -A ${main}`,
    evidence: evidenceAt(joinPath(directory, main), undefined, main),
  }
  const tasks = objectAt(read.data, 'tasks')
  const task = (verb: Exclude<Verb, 'setup'>): FoundCommand | undefined => {
    const name = TASKS[verb].find((one) => Object.hasOwn(tasks, one))
    if (name === undefined) return undefined
    return {
      run: `deno task ${name}`,
      evidence: evidenceIn(file, read.text, ['"tasks"', `"${name}"`], `"${name}"`),
    }
  }
  const dev = task('dev') ?? run
  const build = task('build')
  const start = task('start') ?? run
  return {
    setup: { run: `deno install${lockfile ? ' --frozen' : ''}`, evidence },
    ...(dev && { dev }),
    test: task('test') ?? { run: 'deno test -A', evidence },
    lint: task('lint') ?? { run: 'deno lint', evidence },
    ...(build && { build }),
    ...(start && { start }),
  }
}
