/** Which directories of a project are not what people work on in it. */
import { directoryOf } from '../tree.ts'

/** Other people's code, and what builds leave behind. Nothing in these is ever looked at. */
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

/** Projects that stand for other projects. They count only where there is nothing else of their language. */
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

/** Whether a directory holds samples, other people's code or what builds leave behind, in itself or above. */
export function isAside(directory: string): boolean {
  return lies(directory, FOREIGN) || lies(directory, SAMPLES) || TEST_DATA.test(directory)
}

/** Whether nothing in the directory is the project's own. */
export function isForeign(directory: string): boolean {
  return lies(directory, FOREIGN)
}

/** Of the files that make a language seen, those that count: what lies aside does only when there is nothing else, and what is foreign never does. */
export function worthwhile(paths: readonly string[]): readonly string[] {
  const own = paths.filter((path) => !isAside(directoryOf(path)))
  return own.length > 0 ? own : paths.filter((path) => !isForeign(directoryOf(path)))
}

/** Data of tests, which often has manifests in it. */
const TEST_DATA =
  /(?:^|\/)(?:tests?|spec)\/(?:.*\/)?(?:data|resources|assets|cases|projects|inputs?|integration-cases)(?:\/|$)/

function lies(directory: string, names: ReadonlySet<string>): boolean {
  return directory !== '' && directory.split('/').some((name) => names.has(name))
}
