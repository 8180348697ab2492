/**
 * Finds the parts of package manifests that are run. SECURITY: a manifest that cannot be read counts as
 * changed.
 */
import { parse as parseToml } from 'smol-toml'
import { canonicalJson } from '../../../util/canonical-json.ts'
import type { GateRule } from './gate-rules.ts'

type Table = Readonly<Record<string, unknown>>
type Manifest = NonNullable<GateRule['manifest']>

/** Keys of package.json that name programs, directly or through a tool that reads them. */
const NODE_KEYS = [
  'scripts',
  'bin',
  'directories',
  'gypfile',
  'husky',
  'gitHooks',
  'simple-git-hooks',
  'lint-staged',
  'nano-staged',
  'pre-commit',
  'pre-push',
  'commitlint',
  'config',
  'workspaces',
  'packageManager',
  'devEngines',
  'overrides',
  'resolutions',
  'pnpm',
  'trustedDependencies',
  'dependenciesMeta',
  'patchedDependencies',
  'eslintConfig',
  'prettier',
  'stylelint',
  'babel',
  'jest',
  'ava',
  'mocha',
  'nyc',
  'browserslist',
  'postcss',
  'nodemonConfig',
  'wireit',
  'nx',
  'release',
  'release-it',
] as const

const NODE_DEPENDENCIES = [
  'dependencies',
  'devDependencies',
  'optionalDependencies',
  'peerDependencies',
] as const

const PYTHON_KEYS = [
  'build-system',
  'project.scripts',
  'project.gui-scripts',
  'project.entry-points',
  'tool.setuptools',
  'tool.poetry.build',
  'tool.poetry.scripts',
  'tool.poetry.plugins',
  'tool.poetry.source',
  'tool.hatch',
  'tool.pdm',
  'tool.uv',
  'tool.poe',
  'tool.taskipy',
  'tool.pixi',
  'tool.scikit-build',
  'tool.maturin',
  'tool.pytest',
  'tool.tox',
  'tool.mypy',
  'tool.pylint',
  'tool.coverage',
  'tool.rye',
  'tool.commitizen',
] as const

const RUST_KEYS = [
  'package.build',
  'package.links',
  'package.metadata',
  'lib.proc-macro',
  'build-dependencies',
  'patch',
  'replace',
  'workspace.members',
  'workspace.metadata',
] as const

const PHP_KEYS = ['scripts', 'bin', 'config', 'repositories', 'extra'] as const

const UNREADABLE = ['something unreadable'] as const

/** Commands of package.json that run automatically when packages are installed. */
export const INSTALL_HOOKS: readonly string[] = [
  'preinstall',
  'install',
  'postinstall',
  'preprepare',
  'prepare',
  'postprepare',
  'dependencies',
]

/** The changed parts that are run; empty if only other parts changed. */
export function runParts(
  manifest: Manifest,
  before: string | undefined,
  after: string | undefined,
): readonly string[] {
  try {
    return changedParts(manifest, before, after)
  } catch {
    // It is nested too deeply to compare.
    return UNREADABLE
  }
}

function changedParts(
  manifest: Manifest,
  before: string | undefined,
  after: string | undefined,
): readonly string[] {
  const [was, is] = [read(manifest, before), read(manifest, after)]
  if (was === undefined || is === undefined) return UNREADABLE
  const keys = { node: NODE_KEYS, python: PYTHON_KEYS, rust: RUST_KEYS, php: PHP_KEYS }[manifest]
  const changed = keys.filter((key) => !isSame(at(was, key), at(is, key)))
  return manifest === 'node'
    ? [...changed, ...NODE_DEPENDENCIES.filter((key) => hasNewSource(was[key], is[key]))]
    : changed
}

/** The commands of a package.json by name. */
export function scriptsOf(text: string | undefined): ReadonlyMap<string, string> {
  const scripts = read('node', text)?.['scripts']
  return new Map(
    isTable(scripts)
      ? Object.entries(scripts).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
      : [],
  )
}

/** An absent file is an empty manifest; undefined if the file cannot be parsed. */
function read(manifest: Manifest, text: string | undefined): Table | undefined {
  if (text === undefined) return {}
  try {
    const value: unknown =
      manifest === 'node' || manifest === 'php' ? JSON.parse(text.replace(/^\ufeff/, '')) : parseToml(text)
    return isTable(value) ? value : undefined
  } catch {
    return undefined
  }
}

function at(table: Table, path: string): unknown {
  let value: unknown = table
  for (const key of path.split('.'))
    value = isTable(value) && Object.hasOwn(value, key) ? value[key] : undefined
  return value
}

function isSame(a: unknown, b: unknown): boolean {
  return canonicalJson({ value: a }) === canonicalJson({ value: b })
}

/** Registry versions change with every update; an address or a path is code from elsewhere. */
function hasNewSource(before: unknown, after: unknown): boolean {
  if (!isTable(after)) return after !== undefined
  return Object.entries(after).some(([name, spec]) => {
    if (isTable(before) && Object.hasOwn(before, name) && before[name] === spec) return false
    return typeof spec !== 'string' || (/[:/]/.test(spec) && !/^(?:npm|workspace|catalog|jsr):/.test(spec))
  })
}

function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
