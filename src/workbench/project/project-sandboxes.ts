/**
 * The sandboxes that hold a copy of a project and stay: those of `dev`, and kept ones. Commands that name no
 * sandbox mean the one of the project that the user is in.
 *
 * SECURITY: anyone may set labels, and an admin sees the sandboxes of every owner. So a sandbox belongs to a
 * project only if this machine recorded it when it was created; ids are random.
 */
import { lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix, relative, resolve, sep } from 'node:path'
import type { SandboxInfo } from '../../client/sandbox.ts'
import type { Home } from '../../core/home.ts'
import { isSandboxId } from '../../core/id.ts'
import { readInside } from '../../util/file/read-inside.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { Workbench } from '../workbench.ts'

export interface ProjectSandbox {
  readonly info: SandboxInfo
  /** The directory of the project on this machine. */
  readonly directory: string
  /** The directory of the copy inside. */
  readonly workspace: string
  /** The directory inside that the user is in outside. The sandbox may not have it. */
  readonly workdir: string
}

export type ProjectChoice =
  | { readonly kind: 'one'; readonly one: ProjectSandbox }
  /** Several that are equally good. */
  | { readonly kind: 'several'; readonly all: readonly ProjectSandbox[] }
  /** `elsewhere` are those of other working trees of the same repository. */
  | { readonly kind: 'none'; readonly elsewhere: readonly ProjectSandbox[] }

/** How many sandboxes are remembered for one directory; the oldest are forgotten. */
const MOST_RECORDS = 64

/** The content of a record. */
interface Place {
  readonly directory: string
  readonly workspace: string
  /** What all working trees of a repository share. */
  readonly repository?: string | undefined
}

/** Remembers that the sandbox holds a copy of the project in `directory`. */
export function recordSandbox(
  home: Home,
  id: string,
  { directory, workspace }: Pick<Place, 'directory' | 'workspace'>,
): void {
  const place = realpathSync(directory)
  const folder = folderOf(home, place)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const text = JSON.stringify({ directory: place, workspace, repository: repositoryOf(place) })
  writeFileSync(join(folder, id), text, { mode: 0o600 })
  const files = readdirSync(folder).map((name) => join(folder, name))
  const age = (file: string): number => lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
  for (const old of files.sort((a, b) => age(b) - age(a)).slice(MOST_RECORDS)) rmSync(old, { force: true })
}

/**
 * The sandbox of the project that the user is in: of the nearest directory above that has any, within the
 * repository. One that runs goes before one that is paused, and that before one that is stopped.
 */
export async function findProjectSandbox(bench: Workbench): Promise<ProjectChoice> {
  const here = realpathSync(bench.cwd)
  const existing = await (await bench.client()).list()
  for (const directory of directoriesAbove(here)) {
    const all = recordedIn(bench.home, folderOf(bench.home, directory), existing, here)
    if (all.length > 0) return bestOf(all)
  }
  return { kind: 'none', elsewhere: inOtherTrees(bench.home, existing, here) }
}

const ORDER: readonly SandboxInfo['state'][][] = [
  ['running'],
  ['resuming', 'pausing', 'paused'],
  ['starting', 'stopping', 'stopped'],
]

function bestOf(all: readonly ProjectSandbox[]): ProjectChoice {
  for (const states of ORDER) {
    const equal = all.filter(({ info }) => states.includes(info.state))
    const [one] = equal
    if (one && equal.length === 1) return { kind: 'one', one }
    if (one) return { kind: 'several', all: equal }
  }
  return { kind: 'none', elsewhere: [] }
}

/** The directory itself and those above it, up to the top of its repository. */
function directoriesAbove(directory: string): string[] {
  const parent = dirname(directory)
  if (parent === directory || isTop(directory)) return [directory]
  return [directory, ...directoriesAbove(parent)]
}

function isTop(directory: string): boolean {
  return lstatSync(join(directory, '.git'), { throwIfNoEntry: false }) !== undefined
}

/** The digest of git's common directory; undefined outside a repository. */
function repositoryOf(directory: string): string | undefined {
  const top = directoriesAbove(directory).at(-1) ?? directory
  const info = lstatSync(join(top, '.git'), { throwIfNoEntry: false })
  if (!info) return undefined
  try {
    return sha256Hex(realpathSync(info.isDirectory() ? join(top, '.git') : commonDirOf(top)))
  } catch {
    // A damaged repository shares nothing with others.
    return undefined
  }
}

const LONGEST_GIT_FILE = 8192

/** In a linked working tree, `.git` is a file that names a directory, which names the common one. */
function commonDirOf(top: string): string {
  const [, gitDir = ''] = /^gitdir: (.+)$/m.exec(textOf(top, '.git')) ?? []
  const own = realpathSync(resolve(top, gitDir))
  return resolve(own, textOf(own, 'commondir').trim())
}

/** SECURITY: a project may have anything under these names: only a short, regular file is read. */
function textOf(directory: string, name: string): string {
  return readInside(directory, name, LONGEST_GIT_FILE)?.data.toString() ?? ''
}

function inOtherTrees(home: Home, existing: readonly SandboxInfo[], here: string): ProjectSandbox[] {
  const repository = repositoryOf(here)
  if (repository === undefined) return []
  const root = placesOf(home)
  return namesIn(root).flatMap((name) => recordedIn(home, join(root, name), existing, here, repository))
}

/** Existing sandboxes that are recorded in a folder. */
function recordedIn(
  home: Home,
  folder: string,
  existing: readonly SandboxInfo[],
  here: string,
  repository?: string,
): ProjectSandbox[] {
  const recorded = new Set<string>(namesIn(folder).filter(isSandboxId))
  return existing
    .filter(({ id }) => recorded.has(id))
    .flatMap((info) => {
      const place = readRecord(join(folder, info.id))
      if (!place || folderOf(home, place.directory) !== folder) return []
      if (repository !== undefined && place.repository !== repository) return []
      const below = relative(place.directory, here).split(sep).join('/')
      const isInside = below !== '..' && !below.startsWith('../')
      const workdir = isInside ? posix.join(place.workspace, below) : place.workspace
      return [{ info, directory: place.directory, workspace: place.workspace, workdir }]
    })
}

function readRecord(file: string): Place | undefined {
  try {
    const place: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return isPlace(place) ? place : undefined
  } catch {
    // It was removed meanwhile, or is damaged.
    return undefined
  }
}

function isPlace(value: unknown): value is Place {
  const { directory, workspace, repository } = Object(value) as Record<string, unknown>
  const isText = typeof directory === 'string' && typeof workspace === 'string'
  return isText && (repository === undefined || typeof repository === 'string')
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

function placesOf({ root }: Home): string {
  return join(root, 'project-sandboxes')
}

function folderOf(home: Home, directory: string): string {
  return join(placesOf(home), sha256Hex(directory))
}
