/**
 * Stub sources for a Cargo manifest. Cargo refuses a manifest whose targets are missing, but builds the
 * dependencies whatever the targets contain.
 */
import { isObject, listAt, valueAt } from '../../../util/untrusted-json.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import type { Crate } from './workspace.ts'

/** A manifest may forbid missing documentation, so each stub has a doc comment. */
const LIBRARY = '//! Stands for the sources.\n'
const PROGRAM = '//! Stands for the sources.\nfn main() {}\n'

/** Directories whose files are targets automatically. */
const TARGET_DIRECTORIES = ['src/bin', 'tests', 'benches', 'examples']
const TARGET_TABLES = ['bin', 'test', 'bench', 'example']

const MOST_STUBS = 5000

export interface CargoBinary {
  readonly crate: Crate
  readonly name: string
  readonly path: string
}

/** Stub sources of crates, by path. */
export function stubsOf(tree: FileTree, crates: readonly Crate[]): Readonly<Record<string, string>> {
  const stubs = new Map<string, string>()
  for (const crate of crates) {
    for (const path of programPaths(tree, crate)) stubs.set(path, PROGRAM)
    for (const path of libraryPaths(crate)) if (tree.has(path) && !stubs.has(path)) stubs.set(path, LIBRARY)
  }
  return Object.fromEntries([...stubs].slice(0, MOST_STUBS))
}

function libraryPaths({ directory, data }: Crate): readonly string[] {
  const named = textAt(data, 'lib', 'path')
  const path = named === undefined ? undefined : pathInProject(directory, named)
  return [joinPath(directory, 'src/lib.rs'), ...(path === undefined ? [] : [path])]
}

function programPaths(tree: FileTree, crate: Crate): readonly string[] {
  const { directory, data } = crate
  const build = valueAt(data, 'package', 'build')
  const script =
    build === false ? undefined : pathInProject(directory, typeof build === 'string' ? build : 'build.rs')
  const named = TARGET_TABLES.flatMap((table) => targetPaths(crate, table))
  const lying = TARGET_DIRECTORIES.flatMap((name) => filesThatAreTargets(tree, joinPath(directory, name)))
  const all = [script, joinPath(directory, 'src/main.rs'), ...named, ...lying]
  return all.filter((path): path is string => path !== undefined && tree.has(path))
}

function targetPaths({ directory, data }: Crate, table: string): readonly string[] {
  return listAt(data, table).flatMap((one) => {
    const path = isObject(one) ? textAt(one, 'path') : undefined
    const found = path === undefined ? undefined : pathInProject(directory, path)
    return found === undefined ? [] : [found]
  })
}

/** `x.rs`, and `x/main.rs`. */
function filesThatAreTargets(tree: FileTree, directory: string): readonly string[] {
  const direct = tree
    .in(directory)
    .flatMap((name) => (name.endsWith('.rs') ? [joinPath(directory, name)] : []))
  const nested = tree.named('main.rs').filter((path) => directoryOf(directoryOf(path)) === directory)
  return [...direct, ...nested]
}

/** Programs that can be run, in the order of their paths. */
export function binariesOf(tree: FileTree, crate: Crate): readonly CargoBinary[] {
  if (crate.name === undefined) return []
  const { directory, data, name } = crate
  const found = new Map<string, string>()
  for (const one of listAt(data, 'bin')) {
    const called = textAt(one, 'name')
    const path = textAt(one, 'path')
    const place = pathInProject(directory, path ?? `src/bin/${called}.rs`)
    if (called !== undefined && place !== undefined && tree.has(place)) found.set(place, called)
  }
  const main = joinPath(directory, 'src/main.rs')
  const lying =
    valueAt(data, 'package', 'autobins') === false
      ? []
      : filesThatAreTargets(tree, joinPath(directory, 'src/bin'))
  for (const path of [...(tree.has(main) ? [main] : []), ...lying])
    if (!found.has(path)) found.set(path, path === main ? name : programName(path))
  return [...found]
    .map(([path, called]) => ({ crate, name: called, path }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
}

function programName(path: string): string {
  const steps = path.split('/')
  const last = steps.at(-1) ?? ''
  return last === 'main.rs' ? (steps.at(-2) ?? '') : last.replace(/\.rs$/, '')
}
