/** Which manifests of Cargo's belong together. */
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, within } from '../tree.ts'
import { worthwhile } from './aside.ts'
import { directoriesMatching, inside, isWithin, MOST_PARTS } from './place.ts'
import {
  at,
  isTable,
  malformed,
  type Read,
  readToml,
  short,
  type Table,
  tableAt,
  textAt,
  textsAt,
} from './reading.ts'
import { evidenceAt, linesIn, seek } from './seek.ts'

export interface Crate {
  readonly directory: string
  readonly file: string
  readonly data: Table
  /** Undefined for a manifest that describes a workspace alone. */
  readonly name: string | undefined
}

export interface CargoUnit {
  readonly directory: string
  readonly evidence: Evidence
  readonly isWorkspace: boolean
  /** The manifest of the directory itself. */
  readonly root: Crate
  /** Everything that is built, the root first where it is a crate. */
  readonly crates: readonly Crate[]
  /** Crates of the project that these build upon and that are not theirs. */
  readonly beside: readonly Crate[]
  readonly notes: readonly string[]
}

/** What a package may be called; anything else would be taken for something else on a command line. */
const PLAIN_NAME = /^[A-Za-z0-9][\w-]*$/

export function cargoUnits(tree: FileTree): readonly CargoUnit[] {
  const files = worthwhile(tree.named('Cargo.toml'))
  const roots = files.filter((file) => isTable(at(dataOf(tree, file), 'workspace')))
  const workspaces = roots.map((file) => unitOf(tree, file))
  const taken = new Set(workspaces.flatMap(({ crates }) => crates.map(({ directory }) => directory)))
  const alone = files.filter(
    (file) => !roots.includes(file) && !taken.has(directoryOf(file)) && isPackage(tree, file),
  )
  return [...workspaces, ...alone.map((file) => unitOf(tree, file))].filter(({ root }) => !isFuzzing(root))
}

function dataOf(tree: FileTree, file: string): Table {
  return readToml(tree, file)?.data ?? {}
}

/** What cannot be read may well be one. */
function isPackage(tree: FileTree, file: string): boolean {
  const read = readToml(tree, file)
  return (
    read?.problem !== undefined || isTable(at(read?.data, 'package')) || isTable(at(read?.data, 'project'))
  )
}

/** cargo-fuzz puts a workspace of its own beside what it tests. */
function isFuzzing({ data }: Crate): boolean {
  return at(data, 'package', 'metadata', 'cargo-fuzz') === true
}

function unitOf(tree: FileTree, file: string): CargoUnit {
  const root = crateOf(tree, directoryOf(file))
  const notes: string[] = []
  const read = readToml(tree, file)
  if (read?.problem) notes.push(malformed(file, read.problem))
  const isWorkspace = isTable(at(root.data, 'workspace'))
  const { crates, beside } = gather(tree, root, isWorkspace, notes)
  const words = isWorkspace ? /^[ \t]*\[[ \t]*workspace\b/ : /^[ \t]*name[ \t]*=/
  const found = seek(linesIn(tree, file), words)
  const evidence = evidenceAt(file, found?.line, found?.match.input ?? 'a manifest of Cargo')
  return {
    directory: root.directory,
    evidence,
    isWorkspace,
    root,
    crates,
    beside,
    notes: [...new Set(notes)],
  }
}

function crateOf(tree: FileTree, directory: string): Crate {
  const file = within(directory, 'Cargo.toml')
  const read: Read | undefined = readToml(tree, file)
  const data = read?.data ?? {}
  const name = textAt(data, 'package', 'name')
  return { directory, file, data, name: name !== undefined && PLAIN_NAME.test(name) ? name : undefined }
}

/** Members that are named, and whatever they reach by a path: below the root it is a member too, elsewhere it is not. */
function gather(tree: FileTree, root: Crate, isWorkspace: boolean, notes: string[]) {
  const excluded = textsAt(root.data, 'workspace', 'exclude').map((path) => inside(root.directory, path))
  const crates = new Map<string, Crate>()
  const beside = new Map<string, Crate>()
  const waiting: string[] = [root.directory, ...memberDirectories(tree, root, notes)]
  const named = new Set(waiting)
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (crates.has(next) || beside.has(next) || crates.size + beside.size >= MOST_PARTS) continue
    const directory = next
    const crate = crateOf(tree, directory)
    const isOwn = directory === root.directory || !isTable(at(crate.data, 'workspace'))
    const isBelow = isWithin(directory, root.directory)
    const isExcluded = excluded.some((path) => path !== undefined && isWithin(directory, path))
    const isMember =
      isOwn &&
      (named.has(directory) || (isWorkspace && isBelow)) &&
      (!isExcluded || directory === root.directory)
    if (isExcluded && named.has(directory) && !isMember) continue
    ;(isMember ? crates : beside).set(directory, crate)
    waiting.push(...pathDependencies(tree, crate, notes))
  }
  return { crates: [...crates.values()], beside: [...beside.values()] }
}

function memberDirectories(tree: FileTree, root: Crate, notes: string[]): readonly string[] {
  return textsAt(root.data, 'workspace', 'members')
    .slice(0, MOST_PARTS)
    .flatMap((pattern) => {
      if (inside(root.directory, pattern) === undefined)
        notes.push(`${root.file} has a member outside of the project: ${short(pattern)}`)
      return directoriesMatching(tree, root.directory, pattern, 'Cargo.toml')
    })
}

const KINDS = [
  'dependencies',
  'dev-dependencies',
  'build-dependencies',
  'dev_dependencies',
  'build_dependencies',
]

/** Directories that a manifest's dependencies, or what it puts in their place, lie in. */
function pathDependencies(
  tree: FileTree,
  { directory, file, data }: Crate,
  notes: string[],
): readonly string[] {
  const tables = [
    ...dependencyTables(data),
    tableAt(data, 'workspace', 'dependencies'),
    tableAt(data, 'replace'),
    ...Object.values(tableAt(data, 'patch')).filter(isTable),
  ]
  const paths = tables.flatMap((table) => Object.values(table).flatMap((one) => textAt(one, 'path') ?? []))
  return paths.slice(0, MOST_PARTS).flatMap((path) => {
    const found = inside(directory, path)
    if (found === undefined) notes.push(`${file} builds upon a path outside of the project: ${short(path)}`)
    return found !== undefined && tree.has(within(found, 'Cargo.toml')) ? [found] : []
  })
}

/** Those for every platform, and those for some. */
export function dependencyTables(data: Table): readonly Table[] {
  const platforms = Object.values(tableAt(data, 'target')).filter(isTable)
  return [data, ...platforms].flatMap((one) => KINDS.map((kind) => tableAt(one, kind)))
}
