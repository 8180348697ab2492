/** Groups Cargo manifests into workspaces. */
import { isObject, type JsonObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import {
  malformedNote,
  type ParsedFile,
  readTomlFile,
  shortQuote,
  stringsAt,
  textAt,
} from '../project-files/parsed-file.ts'
import { directoriesMatching, isWithin, MOST_PARTS, pathInProject } from '../project-files/paths.ts'

export interface Crate {
  readonly directory: string
  readonly file: string
  readonly data: JsonObject
  /** Undefined for a manifest that describes a workspace alone. */
  readonly name: string | undefined
}

export interface CargoUnit {
  readonly directory: string
  readonly evidence: Evidence
  readonly isWorkspace: boolean
  /** The manifest of the directory itself. */
  readonly root: Crate
  /** All crates that are built; the root first if it is a crate. */
  readonly crates: readonly Crate[]
  /** Crates of the project that these build upon and that are not theirs. */
  readonly beside: readonly Crate[]
  readonly notes: readonly string[]
}

/** Valid package names; others could be options on a command line. */
const PLAIN_NAME = /^[A-Za-z0-9][\w-]*$/

export function cargoUnits(tree: FileTree): readonly CargoUnit[] {
  const files = ownFiles(tree.named('Cargo.toml'))
  const roots = files.filter((file) => isObject(valueAt(dataOf(tree, file), 'workspace')))
  const workspaces = roots.map((file) => unitOf(tree, file))
  const taken = new Set(workspaces.flatMap(({ crates }) => crates.map(({ directory }) => directory)))
  const alone = files.filter(
    (file) => !roots.includes(file) && !taken.has(directoryOf(file)) && isPackage(tree, file),
  )
  return [...workspaces, ...alone.map((file) => unitOf(tree, file))].filter(({ root }) => !isFuzzing(root))
}

function dataOf(tree: FileTree, file: string): JsonObject {
  return readTomlFile(tree, file)?.data ?? {}
}

/** An unreadable manifest counts as a package. */
function isPackage(tree: FileTree, file: string): boolean {
  const read = readTomlFile(tree, file)
  return (
    read?.problem !== undefined ||
    isObject(valueAt(read?.data, 'package')) ||
    isObject(valueAt(read?.data, 'project'))
  )
}

/** cargo-fuzz creates its own workspace beside the crate it tests. */
function isFuzzing({ data }: Crate): boolean {
  return valueAt(data, 'package', 'metadata', 'cargo-fuzz') === true
}

function unitOf(tree: FileTree, file: string): CargoUnit {
  const root = crateOf(tree, directoryOf(file))
  const notes: string[] = []
  const read = readTomlFile(tree, file)
  if (read?.problem) notes.push(malformedNote(file, read.problem))
  const isWorkspace = isObject(valueAt(root.data, 'workspace'))
  const { crates, beside } = gather(tree, root, isWorkspace, notes)
  const words = isWorkspace ? /^[ \t]*\[[ \t]*workspace\b/ : /^[ \t]*name[ \t]*=/
  const found = findLine(linesIn(tree, file), words)
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
  const file = joinPath(directory, 'Cargo.toml')
  const read: ParsedFile | undefined = readTomlFile(tree, file)
  const data = read?.data ?? {}
  const name = textAt(data, 'package', 'name')
  return { directory, file, data, name: name !== undefined && PLAIN_NAME.test(name) ? name : undefined }
}

/**
 * The named members, and crates that they depend on by path: those below the root are members too, others are
 * not.
 */
function gather(tree: FileTree, root: Crate, isWorkspace: boolean, notes: string[]) {
  const excluded = stringsAt(root.data, 'workspace', 'exclude').map((path) =>
    pathInProject(root.directory, path),
  )
  const crates = new Map<string, Crate>()
  const beside = new Map<string, Crate>()
  const waiting: string[] = [root.directory, ...memberDirectories(tree, root, notes)]
  const named = new Set(waiting)
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (crates.has(next) || beside.has(next) || crates.size + beside.size >= MOST_PARTS) continue
    const directory = next
    const crate = crateOf(tree, directory)
    const isOwn = directory === root.directory || !isObject(valueAt(crate.data, 'workspace'))
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
  return stringsAt(root.data, 'workspace', 'members')
    .slice(0, MOST_PARTS)
    .flatMap((pattern) => {
      if (pathInProject(root.directory, pattern) === undefined)
        notes.push(`${root.file} has a member outside the project: ${shortQuote(pattern)}`)
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

/** Directories of path dependencies and of path replacements. */
function pathDependencies(
  tree: FileTree,
  { directory, file, data }: Crate,
  notes: string[],
): readonly string[] {
  const tables = [
    ...dependencyTables(data),
    objectAt(data, 'workspace', 'dependencies'),
    objectAt(data, 'replace'),
    ...Object.values(objectAt(data, 'patch')).filter(isObject),
  ]
  const paths = tables.flatMap((table) => Object.values(table).flatMap((one) => textAt(one, 'path') ?? []))
  return paths.slice(0, MOST_PARTS).flatMap((path) => {
    const found = pathInProject(directory, path)
    if (found === undefined) notes.push(`${file} depends on a path outside the project: ${shortQuote(path)}`)
    return found !== undefined && tree.has(joinPath(found, 'Cargo.toml')) ? [found] : []
  })
}

/** Those for every platform, and those for some. */
export function dependencyTables(data: JsonObject): readonly JsonObject[] {
  const platforms = Object.values(objectAt(data, 'target')).filter(isObject)
  return [data, ...platforms].flatMap((one) => KINDS.map((kind) => objectAt(one, kind)))
}
