/** Rust: packages and workspaces of Cargo's. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { type JsonObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, Verb } from '../finding.ts'
import { evidenceAt, findLine, findLines, linesIn } from '../project-files/find-lines.ts'
import {
  malformedNote,
  readTextFile,
  readTomlFile,
  shortQuote,
  stringsAt,
  textAt,
  versionText,
} from '../project-files/parsed-file.ts'
import { MOST_FINDINGS, nearestAbove, pathInProject, relativeTo } from '../project-files/paths.ts'
import { directoryAndParents, versionFileCandidates } from '../project-files/version-files.ts'
import { binariesOf, type CargoBinary, stubsOf } from './source-stubs.ts'
import { rustPackages } from './system-packages.ts'
import { type CargoUnit, type Crate, cargoUnits } from './workspace.ts'

const TOOLCHAIN_FILES = ['rust-toolchain.toml', 'rust-toolchain']
const CONFIGURATION_FILES = ['.cargo/config.toml', '.cargo/config']

/** The first compiler that knows an edition. */
const EDITIONS: ReadonlyMap<string, string> = new Map([
  ['2018', '1.31'],
  ['2021', '1.56'],
  ['2024', '1.85'],
])

export const detectRust: Detector = (tree) =>
  cargoUnits(tree)
    .slice(0, MOST_FINDINGS)
    .map((unit) => findingOf(tree, unit))

function findingOf(tree: FileTree, unit: CargoUnit): Finding {
  const { directory, evidence, isWorkspace, crates, beside } = unit
  const lockfile = [joinPath(directory, 'Cargo.lock')].find((path) => tree.has(path))
  const settings = settingsOf(tree, directory)
  const members = crates.flatMap(({ name }) => (name === undefined ? [] : [name]))
  const notes = [...unit.notes, ...settings.notes]
  if (!lockfile) notes.push('there is no Cargo.lock: the newest matching crates are installed')
  notes.push(...gitNotes(tree, lockfile), ...toolchainNotes(tree, directory))
  const binaries = crates.flatMap((crate) => binariesOf(tree, crate))
  return {
    language: 'rust',
    directory,
    evidence,
    versions: versionsOf(tree, unit),
    manager: { name: 'cargo', evidence, beat: [] },
    tools: [],
    ...(lockfile && { lockfile }),
    inputs: inputsOf(tree, unit, lockfile),
    stubs: stubsOf(tree, [...crates, ...beside]),
    commands: commandsOf(tree, unit, { lockfile, settings, binaries }),
    packages: rustPackages(tree, unit, lockfile),
    generated: settings.target === undefined ? [] : [settings.target],
    presets: ['cargo'],
    ...(isWorkspace && { members }),
    ...(notes.length > 0 && { notes }),
  }
}

interface Settings {
  /** The build directory, relative to the project; undefined if it is outside. */
  readonly target: string | undefined
  readonly isVendored: boolean
  readonly notes: readonly string[]
}

/** Cargo merges the files of a directory and those above it; the nearest wins. */
function settingsOf(tree: FileTree, directory: string): Settings {
  const files = configurationFiles(tree, directory)
  const notes: string[] = []
  let target: string | undefined = joinPath(directory, 'target')
  let isVendored = false
  for (const file of files.toReversed()) {
    const read = readTomlFile(tree, file)
    if (read?.problem) notes.push(malformedNote(file, read.problem))
    const chosen = textAt(read?.data, 'build', 'target-dir')
    // Relative to the directory that contains `.cargo`.
    if (chosen !== undefined) target = pathInProject(directoryOf(directoryOf(file)), chosen)
    const sources = Object.values(objectAt(read?.data, 'source'))
    if (sources.some((source) => textAt(source, 'directory') !== undefined)) isVendored = true
    const platform = textAt(read?.data, 'build', 'target')
    if (platform) notes.push(`${file} builds for ${shortQuote(platform)}, which the toolchain must support`)
  }
  if (isVendored) notes.push('the crates are vendored: nothing has to be downloaded')
  return { target: target === '' ? undefined : target, isVendored, notes }
}

function configurationFiles(tree: FileTree, directory: string): readonly string[] {
  return directoryAndParents(directory).flatMap((above) =>
    CONFIGURATION_FILES.map((name) => joinPath(above, name)).filter((path) => tree.has(path)),
  )
}

function toolchainFile(tree: FileTree, directory: string): string | undefined {
  return nearestAbove(tree, directory, TOOLCHAIN_FILES)
}

function versionsOf(tree: FileTree, unit: CargoUnit): readonly Candidate[] {
  return [
    ...channelOf(tree, unit.directory),
    ...versionFileCandidates(tree, unit.directory, 'rust'),
    ...distinct([unit.root, ...unit.crates].flatMap((crate) => floorsOf(tree, crate))),
  ]
}

function distinct(candidates: readonly Candidate[]): readonly Candidate[] {
  const seen = new Set<string>()
  return candidates.filter(({ value }) => !seen.has(value) && seen.add(value))
}

/** The older of the two files may hold the channel and nothing else. */
function channelOf(tree: FileTree, directory: string): readonly Candidate[] {
  const file = toolchainFile(tree, directory)
  if (file === undefined) return []
  const channel = textAt(readTomlFile(tree, file)?.data, 'toolchain', 'channel')
  if (channel !== undefined) {
    const value = versionText(channel)
    const line = findLine(linesIn(tree, file), /^[ \t]*channel[ \t]*=/)?.line
    return value
      ? [{ value, rank: 'version file', evidence: evidenceAt(file, line, `channel = "${channel}"`) }]
      : []
  }
  const words = (readTextFile(tree, file) ?? '').trim()
  const value = nameOf(file) === 'rust-toolchain' && /^[\w.-]{1,60}$/.test(words) ? words : undefined
  return value ? [{ value, rank: 'version file', evidence: evidenceAt(file, 1, value) }] : []
}

/** A package may inherit them from its workspace, and the root is read in any case. */
function floorsOf(tree: FileTree, { file, data }: Crate): readonly Candidate[] {
  return [objectAt(data, 'package'), objectAt(data, 'workspace', 'package')].flatMap((table) => [
    ...floor(tree, file, 'rust-version', versionText(textAt(table, 'rust-version'))),
    ...floor(tree, file, 'edition', EDITIONS.get(textAt(table, 'edition') ?? '')),
  ])
}

function floor(tree: FileTree, file: string, key: string, value: string | undefined): readonly Candidate[] {
  if (value === undefined) return []
  const found = findLine(
    linesIn(tree, file),
    key === 'edition' ? /^[ \t]*edition[ \t]*=/ : /^[ \t]*rust-version[ \t]*=/,
  )
  return [
    {
      value: `>=${value}`,
      rank: 'range',
      evidence: evidenceAt(file, found?.line, found?.match.input ?? key),
    },
  ]
}

function toolchainNotes(tree: FileTree, directory: string): readonly string[] {
  const file = toolchainFile(tree, directory)
  const targets = file ? stringsAt(readTomlFile(tree, file)?.data, 'toolchain', 'targets') : []
  return targets.length === 0 ? [] : [`${file} wants the targets ${shortQuote(targets.join(', '))}`]
}

function gitNotes(tree: FileTree, lockfile: string | undefined): readonly string[] {
  if (lockfile === undefined) return []
  const found = findLines(
    linesIn(tree, lockfile),
    /^source = "git\+[a-z+]{1,10}:\/\/(?:[^@/"]{1,100}@)?([\w.-]{1,100})/,
  )
  const hosts = [...new Set(found.map(({ match }) => match[1] ?? ''))].toSorted()
  return hosts.map((host) => `${lockfile} takes crates from git repositories on ${host}: allow that host`)
}

function inputsOf(tree: FileTree, unit: CargoUnit, lockfile: string | undefined): readonly string[] {
  const toolchain = toolchainFile(tree, unit.directory)
  const files = [
    unit.root.file,
    ...[...unit.crates, ...unit.beside].map(({ file }) => file),
    ...(lockfile ? [lockfile] : []),
    ...configurationFiles(tree, unit.directory),
    ...(toolchain ? [toolchain] : []),
  ]
  return [...new Set(files)]
}

interface About {
  readonly lockfile: string | undefined
  readonly settings: Settings
  readonly binaries: readonly CargoBinary[]
}

function commandsOf(tree: FileTree, unit: CargoUnit, about: About): Partial<Record<Verb, FoundCommand>> {
  const { evidence, root, crates } = unit
  // Without the flag, only the root package of a workspace is built.
  const all = root.name !== undefined && crates.length > 1 ? ' --workspace' : ''
  const run = runOf(unit, about.binaries)
  return {
    ...(!about.settings.isVendored && { setup: { run: setupOf(tree, unit, about, all), evidence } }),
    ...(run && { dev: run }),
    test: { run: `cargo test${all}`, evidence },
    lint: lintOf(tree, unit, all),
    build: { run: `cargo build${all}`, evidence },
    ...(run && { start: { ...run, run: run.run.replace('cargo run', 'cargo run --release') } }),
  }
}

/**
 * Fetching must succeed. Dependencies are compiled together with stubs, which may fail. The stubs' own build
 * results are removed: Cargo compares times, so sources older than the build of their stub would never be
 * compiled.
 */
function setupOf(tree: FileTree, unit: CargoUnit, { lockfile, settings }: About, all: string): string {
  const locked = lockfile ? ' --locked' : ''
  const target = settings.target === undefined ? '' : shellWord(relativeTo(unit.directory, settings.target))
  const names = cleanedNames(tree, unit, lockfile)
  const remove = target === '' ? 'true' : `rm -rf ${target}`
  const clean = names.map((name) => ` -p ${name}`).join('')
  return [
    `cargo fetch${locked} && {`,
    `cargo test --no-run${all}${locked} --offline;`,
    `cargo build${all}${locked} --offline;`,
    clean === '' ? `${remove}; }` : `cargo clean${locked} --offline${clean} || ${remove}; }`,
  ].join(' ')
}

/** Cargo refuses all names if one is unknown; ambiguous names get their version. */
function cleanedNames(
  tree: FileTree,
  { crates, beside }: CargoUnit,
  lockfile: string | undefined,
): readonly string[] {
  const locked = findLines(lockfile ? linesIn(tree, lockfile) : [], /^name = "([^"]*)"/).map(
    ({ match }) => match[1],
  )
  const known = beside.filter(({ name }) => lockfile === undefined || locked.includes(name))
  const names = [...crates, ...known].flatMap(({ name, data }) => {
    if (name === undefined) return []
    const version = textAt(data, 'package', 'version')
    const isShared = locked.filter((one) => one === name).length > 1
    return [isShared && /^[\w.+-]+$/.test(version ?? '') ? `${name}:${version}` : name]
  })
  return [...new Set(names)]
}

function runOf({ root, isWorkspace }: CargoUnit, binaries: readonly CargoBinary[]): FoundCommand | undefined {
  const chosen = textAt(root.data, 'package', 'default-run')
  const own = binaries.filter(({ crate }) => crate.directory === root.directory)
  if (own.length === 1 || (chosen !== undefined && own.some(({ name }) => name === chosen)))
    return { run: 'cargo run', evidence: evidenceAt(own[0]?.path ?? root.file, undefined, 'a program') }
  const [only] = binaries
  if (binaries.length !== 1 || !only) return undefined
  const which = isWorkspace ? ` -p ${only.crate.name}` : ''
  return { run: `cargo run${which}`, evidence: evidenceAt(only.path, undefined, 'the only program') }
}

/** Clippy, if the project uses it; most toolchains include it, but not all. */
function lintOf(tree: FileTree, unit: CargoUnit, all: string): FoundCommand {
  const run = `cargo clippy${all} --all-targets`
  const file = nearestAbove(tree, unit.directory, ['clippy.toml', '.clippy.toml'])
  if (file) return { run, evidence: evidenceAt(file, undefined, nameOf(file)) }
  if (hasClippyTable(unit.root.data))
    return { run, evidence: evidenceAt(unit.root.file, undefined, 'lints for clippy') }
  const workflows = tree.in('.github/workflows').map((name) => `.github/workflows/${name}`)
  for (const path of [...workflows, '.gitlab-ci.yml']) {
    if (!/\.ya?ml$/.test(path)) continue
    const found = findLine(linesIn(tree, path), /\bcargo clippy\b|clippy-check/)
    if (found) return { run, evidence: evidenceAt(path, found.line, found.match.input) }
  }
  return { run: `cargo check${all} --all-targets`, evidence: unit.evidence }
}

function hasClippyTable(data: JsonObject): boolean {
  return (
    valueAt(data, 'lints', 'clippy') !== undefined ||
    valueAt(data, 'workspace', 'lints', 'clippy') !== undefined
  )
}
