/** Directories of a project that detection ignores. */
import { directoryOf } from '../../file-tree.ts'

/** Third-party code and build output. Nothing in these is ever used. */
const FOREIGN: ReadonlySet<string> = new Set([
  'node_modules',
  'bower_components',
  'jspm_packages',
  'vendor',
  'vendored',
  '_vendor',
  'third_party',
  'third-party',
  'thirdparty',
  'Pods',
  'site-packages',
  '.venv',
  'venv',
  'virtualenv',
  '.tox',
  '.nox',
  '.eggs',
  '__pycache__',
  '__pypackages__',
  'dist',
  'build',
  'out',
  'target',
  '_build',
  'deps',
  'obj',
  '.git',
  '.yarn',
  '.cache',
  '.next',
  '.nuxt',
  '.output',
  '.svelte-kit',
  '.terraform',
  '.gradle',
  '.devcontainer',
])

/** Samples and test data. They count only if there is nothing else in their language. */
const SAMPLES: ReadonlySet<string> = new Set([
  'fixture',
  'fixtures',
  '__fixtures__',
  '__tests__',
  '__mocks__',
  '__snapshots__',
  'testdata',
  'test-data',
  'test_data',
  'example',
  'examples',
  'sample',
  'samples',
  'demo',
  'demos',
  'template',
  'templates',
  'boilerplate',
  'boilerplates',
  'cookbook',
  'playground',
  'playgrounds',
  'benchmark',
  'benchmarks',
  'bench',
])

/** Whether a directory, or one above it, holds samples, third-party code or build output. */
export function isIgnored(directory: string): boolean {
  return lies(directory, FOREIGN) || lies(directory, SAMPLES) || TEST_DATA.test(directory)
}

/** Whether a directory, or one above it, holds third-party code or build output. */
export function isVendoredOrBuilt(directory: string): boolean {
  return lies(directory, FOREIGN)
}

/**
 * The marker files that count: those in ignored directories only if there are no others, and those in
 * third-party code or build output never.
 */
export function ownFiles(paths: readonly string[]): readonly string[] {
  const own = paths.filter((path) => !isIgnored(directoryOf(path)))
  return own.length > 0 ? own : paths.filter((path) => !isVendoredOrBuilt(directoryOf(path)))
}

/** Test data, which often contains manifests. */
const TEST_DATA =
  /(?:^|\/)(?:tests?|spec)\/(?:.*\/)?(?:data|resources|assets|cases|projects|inputs?|integration-cases)(?:\/|$)/

function lies(directory: string, names: ReadonlySet<string>): boolean {
  return directory !== '' && directory.split('/').some((name) => names.has(name))
}
