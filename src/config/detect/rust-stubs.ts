/** Sources that a manifest of Cargo's implies. Cargo refuses a manifest whose targets are missing, and builds their dependencies whatever is in them. */
import { directoryOf, type FileTree, within } from '../tree.ts'
import { inside } from './place.ts'
import { at, isTable, listAt, textAt } from './reading.ts'
import type { Crate } from './rust-workspace.ts'

/** A manifest may forbid what has no description, so each has one. */
const LIBRARY = '//! Stands for the sources.\n'
const PROGRAM = '//! Stands for the sources.\nfn main() {}\n'

/** Directories whose files are targets by lying there. */
const TARGET_DIRECTORIES = ['src/bin', 'tests', 'benches', 'examples']
const TARGET_TABLES = ['bin', 'test', 'bench', 'example']

const MOST_STUBS = 5000

export interface Binary {
  readonly crate: Crate
  readonly name: string
  readonly path: string
}

/** What is to be put in place of the sources of some crates, by path. */
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
  const path = named === undefined ? undefined : inside(directory, named)
  return [within(directory, 'src/lib.rs'), ...(path === undefined ? [] : [path])]
}

function programPaths(tree: FileTree, crate: Crate): readonly string[] {
  const { directory, data } = crate
  const build = at(data, 'package', 'build')
  const script =
    build === false ? undefined : inside(directory, typeof build === 'string' ? build : 'build.rs')
  const named = TARGET_TABLES.flatMap((table) => targetPaths(crate, table))
  const lying = TARGET_DIRECTORIES.flatMap((name) => filesThatAreTargets(tree, within(directory, name)))
  const all = [script, within(directory, 'src/main.rs'), ...named, ...lying]
  return all.filter((path): path is string => path !== undefined && tree.has(path))
}

function targetPaths({ directory, data }: Crate, table: string): readonly string[] {
  return listAt(data, table).flatMap((one) => {
    const path = isTable(one) ? textAt(one, 'path') : undefined
    const found = path === undefined ? undefined : inside(directory, path)
    return found === undefined ? [] : [found]
  })
}

/** `x.rs`, and `x/main.rs`. */
function filesThatAreTargets(tree: FileTree, directory: string): readonly string[] {
  const direct = tree.in(directory).flatMap((name) => (name.endsWith('.rs') ? [within(directory, name)] : []))
  const nested = tree.named('main.rs').filter((path) => directoryOf(directoryOf(path)) === directory)
  return [...direct, ...nested]
}

/** Programs that can be run, in the order of their paths. */
export function binariesOf(tree: FileTree, crate: Crate): readonly Binary[] {
  if (crate.name === undefined) return []
  const { directory, data, name } = crate
  const found = new Map<string, string>()
  for (const one of listAt(data, 'bin')) {
    const called = textAt(one, 'name')
    const path = textAt(one, 'path')
    const place = inside(directory, path ?? `src/bin/${called}.rs`)
    if (called !== undefined && place !== undefined && tree.has(place)) found.set(place, called)
  }
  const main = within(directory, 'src/main.rs')
  const lying =
    at(data, 'package', 'autobins') === false ? [] : filesThatAreTargets(tree, within(directory, 'src/bin'))
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
