/** `nixpacks.toml` and `nixpacks.json`, also inside railway's files. */
import { isObject, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { FoundCommand, Language } from '../finding.ts'
import { stringsAt, versionText } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { addNixPackage } from './nix-names.ts'
import { orderByDependency } from './order-by-dependency.ts'
import {
  commandAt,
  deploymentVariables,
  firstKeys,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  type SourcePath,
  sayingOf,
  unused,
  valueIn,
} from './source-file.ts'

const FILES = ['nixpacks.toml', 'nixpacks.json'] as const
const MOST = 100
/** In a list: what nixpacks, or here AgentPod, would do without the file. */
const DEFAULTS = '...'

const PROVIDERS: Readonly<Record<string, Language>> = {
  node: 'node',
  python: 'python',
  go: 'go',
  rust: 'rust',
  java: 'java',
  ruby: 'ruby',
  php: 'php',
  deno: 'deno',
  bun: 'bun',
  csharp: 'dotnet',
  elixir: 'elixir',
}

const DEPLOYS = 'it configures the image of a deployment'
const OTHERS: Readonly<Record<string, string>> = {
  staticAssets: DEPLOYS,
  buildImage: DEPLOYS,
  nixpacks_version: DEPLOYS,
}

export function readNixpacks(tree: FileTree): readonly FormatFile[] {
  return FILES.filter((file) => tree.has(file)).map((file) => {
    const format = newFormat(file, 'nixpacks')
    const source = readSourceFile(tree, file, format)
    if (source) readNixpacksPlan(format, source, [])
    return format
  })
}

/** A plan of nixpacks at a path of a file. */
export function readNixpacksPlan(format: FormatDraft, source: SourceFile, at: SourcePath): void {
  const plan = at.length === 0 ? source.data : valueIn(source.data, at)
  if (!isObject(plan)) return
  const providers = stringsAt(plan, 'providers')
  for (const [index, name] of firstOf(format, source, [...at, 'providers'], providers, MOST).entries()) {
    if (name === DEFAULTS) continue
    const path = [...at, 'providers', index]
    const language = Object.hasOwn(PROVIDERS, name) ? PROVIDERS[name] : undefined
    if (language)
      format.versions.push({
        language,
        value: '*',
        rank: format.rank,
        evidence: sayingOf(source, path, name),
      })
    else unused(format, source, path, 'no language is known for this provider')
  }
  readPhases(format, source, at, plan)
  addCommand(format, 'start', commandAt(format, source, [...at, 'start', 'cmd']))
  versionVariables(format, source, [...at, 'variables'])
  deploymentVariables(format, source, [...at, 'variables'])
  noteOthers(format, source, at, { used: ['providers', 'phases', 'start', 'variables'], why: OTHERS })
  noteOthers(format, source, [...at, 'start'], {
    used: ['cmd'],
    why: { runImage: DEPLOYS, onlyIncludeFiles: DEPLOYS },
  })
}

/** `NIXPACKS_NODE_VERSION` and its like choose a version. */
function versionVariables(format: FormatDraft, source: SourceFile, path: SourcePath): void {
  const table = valueIn(source.data, path)
  if (!isObject(table)) return
  for (const [name, written] of Object.entries(table)) {
    const [, word = ''] =
      /^(?:NIXPACKS|RAILPACK)_(NODE|PYTHON|GO|RUST|JDK|RUBY|PHP|DENO|BUN)_VERSION$/.exec(name) ?? []
    const language = word === 'JDK' ? 'java' : PROVIDERS[word.toLowerCase()]
    const value = versionText(written)
    if (language && value === undefined) unused(format, source, [...path, name], 'it is not a version')
    else if (language && value !== undefined)
      format.versions.push({
        language,
        value,
        rank: format.rank,
        evidence: sayingOf(source, [...path, name], value),
      })
  }
}

/** Phases that install go into the environment; the others build the project. */
function readPhases(format: FormatDraft, source: SourceFile, at: SourcePath, plan: unknown): void {
  const phases = objectAt(plan, 'phases')
  const names = firstKeys(format, source, [...at, 'phases'], MOST).filter((name) => name !== DEFAULTS)
  const order = orderByDependency(names, (name) => dependsOn(phases, name))
  if (order.cycle)
    unused(format, source, [...at, 'phases', order.cycle], 'its dependsOn leads back to itself')
  const installed = withDependencies(order.names, 'install', (name) => dependsOn(phases, name))
  const build: FoundCommand[] = []
  for (const name of order.names) {
    const path = [...at, 'phases', name]
    readPackages(format, source, path)
    const commands = phaseCommands(format, source, path)
    if (installed.has(name)) format.setup.push(...commands)
    else build.push(...commands)
    noteOthers(format, source, path, {
      used: ['nixPkgs', 'aptPkgs', 'cmds', 'cmd', 'dependsOn'],
      why: {
        nixLibs: 'libraries come from Debian: name them in aptPkgs',
        nixOverlays: 'packages come from Debian',
        nixpkgsArchive: 'packages come from Debian',
        onlyIncludeFiles: 'a step gets the files of the project',
        cacheDirectories: 'downloads are cached outside the sandboxes',
        paths: 'the PATH is that of the environment',
      },
    })
  }
  const [first, ...rest] = build
  if (first) addCommand(format, 'build', { ...first, run: [first, ...rest].map(({ run }) => run).join('\n') })
}

function dependsOn(phases: unknown, name: string): readonly string[] {
  const own = stringsAt(phases, name, 'dependsOn').filter((one) => one !== DEFAULTS)
  if (name === 'install') return ['setup', ...own]
  return name === 'build' ? ['install', ...own] : own
}

/** Everything that must run for a phase, with the phase. */
function withDependencies(
  names: readonly string[],
  last: string,
  before: (name: string) => readonly string[],
): ReadonlySet<string> {
  const found = new Set<string>(['setup', last])
  // Dependencies come first in the order, so one pass from the end finds all.
  for (const name of names.toReversed()) if (found.has(name)) for (const one of before(name)) found.add(one)
  return found
}

function readPackages(format: FormatDraft, source: SourceFile, path: SourcePath): void {
  const phase = valueIn(source.data, path)
  const nix = stringsAt(phase, 'nixPkgs')
  const apt = stringsAt(phase, 'aptPkgs')
  for (const [at, name] of firstOf(format, source, [...path, 'nixPkgs'], nix, MOST).entries())
    if (name !== DEFAULTS) addNixPackage(format, name, sayingOf(source, [...path, 'nixPkgs', at], name))
  for (const [at, name] of firstOf(format, source, [...path, 'aptPkgs'], apt, MOST).entries())
    if (name !== DEFAULTS)
      format.packages.push({ name, evidence: sayingOf(source, [...path, 'aptPkgs', at], name) })
}

function phaseCommands(format: FormatDraft, source: SourceFile, path: SourcePath): FoundCommand[] {
  const phase = valueIn(source.data, path)
  const key = isObject(phase) && Array.isArray(phase['cmds']) ? 'cmds' : 'cmd'
  const list = isObject(phase) ? phase[key] : undefined
  if (typeof list === 'string') {
    const one = commandAt(format, source, [...path, key])
    return one ? [one] : []
  }
  const count = Array.isArray(list) ? Math.min(list.length, MOST) : 0
  if (Array.isArray(list)) firstOf(format, source, [...path, key], list, MOST)
  return Array.from({ length: count }, (_, at) => at).flatMap((at) =>
    valueIn(source.data, [...path, key, at]) === DEFAULTS
      ? []
      : (commandAt(format, source, [...path, key, at]) ?? []),
  )
}
