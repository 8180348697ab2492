/** Lists the files of a project: those that git does not ignore, or all files outside a repository. */
import { execFile } from 'node:child_process'
import { lstatSync, type Stats } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { AgentPodError } from '../core/error.ts'

const MOST_FILES = 2_000_000
const GIT_OUTPUT_BYTES = 512 * 1024 * 1024

export interface ProjectOptions {
  readonly directory: string
  /** Skipped paths: the state directory itself may be inside a project. */
  readonly exclude: readonly string[]
  /** The environment for git: PATH, and HOME for its configuration. */
  readonly env: Readonly<Record<string, string | undefined>>
  /**
   * Called for each path that is skipped because its name is not UTF-8; bytes that cannot be decoded are
   * U+FFFD.
   */
  readonly onNotText?: ((path: string) => void) | undefined
}

export const NOT_TEXT = 'its name is not UTF-8'

/**
 * Sorted paths relative to the directory, without `.git`. Directories are listed only if they are empty and
 * there is no repository.
 */
export async function listProject(options: ProjectOptions): Promise<string[]> {
  const directory = resolve(options.directory)
  const found: string[] = []
  await collect(directory, '', found, gitEnv(options.env), options.onNotText)
  const excluded = options.exclude.map((path) => relative(directory, resolve(path)))
  // A tracked file that has become a directory is listed once for itself, and once for each file in it.
  return [...new Set(found)]
    .filter((path) => isText(directory, path, options.onNotText))
    .filter((path) => !excluded.some((out) => out !== '' && (path === out || path.startsWith(`${out}/`))))
    .sort()
}

/** The same for a directory of a project that may be a repository of its own. Relative to the project. */
export async function listInside(
  root: string,
  directory: string,
  env: ProjectOptions['env'],
): Promise<string[]> {
  const found: string[] = []
  await collect(root, directory, found, gitEnv(env), undefined)
  return found
}

/** Every file below a directory, `.git` and ignored ones too. */
export async function listFiles(directory: string): Promise<string[]> {
  const found: string[] = []
  await walk(resolve(directory), '', found, () => false)
  return found.sort()
}

const isGit = (name: string): boolean => name === '.git'

/** A name that is not UTF-8 is decoded with U+FFFD, and no file has that name. */
export function isText(root: string, path: string, onNotText?: (path: string) => void): boolean {
  if (!path.includes('\ufffd') || look(join(root, path))) return true
  onNotText?.(path)
  return false
}

async function collect(
  root: string,
  prefix: string,
  found: string[],
  env: NodeJS.ProcessEnv,
  onNotText: ProjectOptions['onNotText'],
): Promise<void> {
  const listed = await gitFiles(join(root, prefix), env)
  // In a submodule that was not fetched, git lists the directory itself.
  if (listed === undefined || listed.includes('./')) return walk(root, prefix, found, isGit)
  const isReal = realDirectories(root)
  for (const name of listed) {
    const path = join(prefix, name.replace(/\/$/, ''))
    // SECURITY: an index may name paths outside, with `..` or behind a directory that has become a link
    // (GT-02).
    if (path === '..' || path.startsWith('../') || !isReal(dirname(path))) continue
    // There may be tens of thousands of files: a synchronous call is faster than one through the thread pool.
    const info = look(join(root, path))
    // Tracked but deleted: the copy lacks it too.
    if (!info) {
      isText(root, path, onNotText)
      continue
    }
    // A submodule or nested repository lists its own files.
    if (info.isDirectory()) await collect(root, path, found, env, onNotText)
    else add(found, path)
  }
}

/** Undefined if the path does not exist or cannot be read. */
export function look(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/** Whether no directory of a path is a link; each directory is checked once. */
export function realDirectories(root: string): (path: string) => boolean {
  const known = new Map<string, boolean>([['.', true]])
  const isReal = (path: string): boolean => {
    const found = known.get(path) ?? (isReal(dirname(path)) && look(join(root, path))?.isDirectory() === true)
    known.set(path, found)
    return found
  }
  return isReal
}

/** SECURITY: the project's own configuration must not name a program for git to run (GT-01). */
export const SAFE_GIT = [
  '-c',
  'core.fsmonitor=false',
  '-c',
  'core.hooksPath=/dev/null',
  '-c',
  'core.untrackedCache=false',
] as const

/** Tracked files, and files that are not ignored. Undefined without a repository or git. */
function gitFiles(directory: string, env: NodeJS.ProcessEnv): Promise<string[] | undefined> {
  return new Promise((resolvePromise) => {
    execFile(
      'git',
      [...SAFE_GIT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate'],
      { cwd: directory, maxBuffer: GIT_OUTPUT_BYTES, env },
      (error, stdout) => resolvePromise(error ? undefined : stdout.split('\0').filter((name) => name !== '')),
    )
  })
}

/** The user's environment without variables that redirect git. */
export function gitEnv(env: ProjectOptions['env']): NodeJS.ProcessEnv {
  return { PATH: env['PATH'], HOME: env['HOME'], LC_ALL: 'C', GIT_OPTIONAL_LOCKS: '0' }
}

async function walk(
  root: string,
  prefix: string,
  found: string[],
  isOut: (name: string) => boolean,
): Promise<void> {
  const entries = await readdir(join(root, prefix), { withFileTypes: true }).catch(
    (error: NodeJS.ErrnoException) => {
      throw unreadable(join(root, prefix), error)
    },
  )
  if (entries.length === 0 && prefix !== '') add(found, prefix)
  for (const entry of entries) {
    const path = join(prefix, entry.name)
    if (isOut(entry.name)) continue
    if (entry.isDirectory()) await walk(root, path, found, isOut)
    else if (entry.isFile() || entry.isSymbolicLink()) add(found, path)
  }
}

function add(found: string[], path: string): void {
  checkFileCount(found.length + 1)
  found.push(path)
}

/** Refuses a project with more files than are copied. */
export function checkFileCount(count: number): void {
  if (count > MOST_FILES) {
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'project.too_large',
      message: `the project has more than ${MOST_FILES} files`,
      hint: 'start in a smaller directory, or add files that are not needed to .gitignore',
    })
  }
}

export function unreadable(path: string, error: NodeJS.ErrnoException): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'project.unreadable',
    message: `cannot read ${path}: ${error.code ?? error.message}`,
    hint: 'change its permissions, or add it to .gitignore',
    cause: error,
  })
}
