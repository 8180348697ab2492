// Who may import whom. The table is the diagram of STYLE.md; a break is fixed or written up as an ADR.

import { posix } from 'node:path'
import { type Import, isTest, type Parsed, type Violation } from './source.ts'

const NOUNS = ['core', 'util']
const SERVICES = [
  'config',
  'policy',
  'store',
  'telemetry',
  'bases',
  'secrets',
  'guest',
  'sync',
  'agents',
  'egress',
]
// Folders that serve requests may log: telemetry only writes lines.
const DOORS = [...NOUNS, 'engine', 'runs', 'build', 'telemetry']
const ANY_PROVIDER = 'providers/*'

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  util: [],
  core: ['util'],
  config: [...NOUNS, 'policy', 'bases'],
  policy: NOUNS,
  store: NOUNS,
  telemetry: NOUNS,
  bases: NOUNS,
  secrets: NOUNS,
  guest: NOUNS,
  sync: NOUNS,
  agents: [...NOUNS, 'bases'],
  egress: [...NOUNS, 'policy', 'secrets', 'telemetry'],
  'providers/local': [...NOUNS, 'guest'],
  [ANY_PROVIDER]: [...NOUNS, 'guest'],
  engine: [...NOUNS, ...SERVICES],
  build: [...NOUNS, 'engine', 'bases', 'guest', 'telemetry'],
  runs: [...NOUNS, 'engine', 'agents', 'sync', 'guest', 'store', 'telemetry'],
  'api/schema': NOUNS,
  api: [...DOORS, 'api/schema'],
  main: [...DOORS, ...SERVICES, 'api', 'api/schema', 'client', ANY_PROVIDER],
  client: [...NOUNS, 'api/schema', 'sync'],
  workbench: [...NOUNS, 'client', 'config', 'sync', 'agents', 'bases', 'api/schema'],
  cli: [...NOUNS, 'client', 'config', 'sync', 'agents', 'bases', 'api/schema', 'workbench'],
  testing: NOUNS,
  exports: ['client', 'core', 'guest', 'testing', 'main', 'sync', 'workbench'],
}

const HOST_RUNTIMES = ['providers/crun', 'providers/gvisor', 'providers/qemu']
const SERVE_COMMAND = 'src/cli/commands/serve.ts'

export function checkDirections(files: readonly Parsed[]): Violation[] {
  return files.flatMap((file) =>
    file.imports.flatMap((one) => {
      const rule = breach(file.path, one)
      return rule === null ? [] : [{ path: file.path, line: one.line, rule }]
    }),
  )
}

function breach(path: string, one: Import): string | null {
  const from = zoneOf(path)
  if (one.specifier === '') return 'a dynamic import names its module with a plain string'
  const target = resolveImport(path, one.specifier)
  if (target === null) return packageBreach(from, path, one)
  const to = zoneOf(target)
  if (from === to || mayImport(path, from, to)) return null
  return `${from || 'a file outside the folders of src/'} may not import ${to || target}`
}

function mayImport(path: string, from: string, to: string): boolean {
  const allowed = MAY_IMPORT[from] ?? (from.startsWith('providers/') ? MAY_IMPORT[ANY_PROVIDER] : undefined)
  if (allowed === undefined) return false
  if (allowed.includes(to) || (to.startsWith('providers/') && allowed.includes(ANY_PROVIDER))) return true
  if (to === 'testing' && (isTest(path) || path.includes('/testing/'))) return true
  if (to === 'providers/local' && HOST_RUNTIMES.includes(from)) return true
  return to === 'main' && path === SERVE_COMMAND
}

// src/core does no input or output, so it may import only types from outside src/; src/util uses Node alone.
function packageBreach(from: string, path: string, one: Import): string | null {
  if (isTest(path)) return null
  if (from === 'core' && !one.isTypeOnly) return `core may not import ${one.specifier}`
  if (from === 'util' && !one.specifier.startsWith('node:')) return `util may not import ${one.specifier}`
  return null
}

/**
 * Returns the folder that a rule is about: the first level, one more below providers/, and the API schemas on
 * their own.
 */
export function zoneOf(path: string): string {
  const [top = '', ...rest] = path.split('/')
  if (top !== 'src' || rest.length < 2) return ''
  const [folder = '', next = ''] = rest
  if (rest.length > 2 && (folder === 'providers' || (folder === 'api' && next === 'schema')))
    return `${folder}/${next}`
  return folder
}

/** Gives the file an import means, or null for Node's and other people's packages. */
function resolveImport(path: string, specifier: string): string | null {
  if (specifier.startsWith('.')) return posix.join(posix.dirname(path), specifier)
  if (specifier === 'agentpod' || specifier.startsWith('agentpod/')) return 'src/exports/client.ts'
  return null
}

export function checkCycles(files: readonly Parsed[]): Violation[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const done = new Set<string>()
  const found: Violation[] = []

  const visit = (file: Parsed, trail: readonly string[]): void => {
    for (const one of file.imports) {
      const target = byPath.get(resolveImport(file.path, one.specifier) ?? '')
      if (!target || done.has(target.path)) continue
      const start = trail.indexOf(target.path)
      if (start < 0) visit(target, [...trail, target.path])
      else {
        const cycle = [...trail.slice(start), target.path].join(' -> ')
        found.push({ path: file.path, line: one.line, rule: `imports form a cycle: ${cycle}` })
      }
    }
    done.add(file.path)
  }

  for (const file of files) if (!done.has(file.path)) visit(file, [file.path])
  return found
}

/** Where such a word means something else: a directory that projects have, a level of isolation. */
const OTHER_MEANINGS: Readonly<Record<string, readonly string[]>> = {
  'src/core/capability.ts': ['gvisor'],
  'src/cli/args/options.ts': ['docker'],
  'src/workbench/devcontainer/plan-devcontainer.ts': ['docker'],
  'src/config/detect/python/project.ts': ['docker'],
}

/**
 * The name of a provider is in its own folder, in main/ and in tests. No other code may depend on which
 * providers exist.
 */
export function checkProviderNames(files: readonly Parsed[]): Violation[] {
  const zones = files.map((file) => zoneOf(file.path)).filter((zone) => zone.startsWith('providers/'))
  const names = new Set(
    zones.map((zone) => zone.slice('providers/'.length)).filter((name) => name !== 'local'),
  )
  return files
    .filter((file) => file.path.startsWith('src/') && !isTest(file.path) && zoneOf(file.path) !== 'main')
    .flatMap((file) =>
      file.literals
        .filter(({ value }) => names.has(value) && zoneOf(file.path) !== `providers/${value}`)
        .filter(({ value }) => !(OTHER_MEANINGS[file.path] ?? []).includes(value))
        .map(({ value, line }) => ({ path: file.path, line, rule: `names the provider '${value}'` })),
    )
}

/**
 * An example is written as by a third party: it imports only the entries of package.json and its own folder.
 */
export function checkExamples(files: readonly Parsed[]): Violation[] {
  return files
    .filter(({ path }) => path.startsWith('examples/'))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ specifier }) => specifier.startsWith('..'))
        .map(({ specifier, line }) => ({ path, line, rule: `an example may not import ${specifier}` })),
    )
}
