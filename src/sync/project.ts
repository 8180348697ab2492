/** Which files of a directory are the project: what git does not ignore, or everything where there is no git. */
import { execFile } from 'node:child_process'
import { lstatSync, type Stats } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { AgentPodError } from '../core/error.ts'

const MOST_FILES = 2_000_000
const GIT_OUTPUT_BYTES = 512 * 1024 * 1024

export interface ProjectOptions {
  readonly directory: string
  /** Left out, wherever they lie: the state directory itself may be inside a project. */
  readonly exclude: readonly string[]
  /** Where git is found and whose configuration it reads. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Told each path that is left out because its name is not UTF-8; what cannot be decoded stands in it as U+FFFD. */
  readonly onNotText?: ((path: string) => void) | undefined
}

export const NOT_TEXT = 'its name is not UTF-8'

/** Paths relative to the directory, in order, without `.git`. Directories appear only where they are empty and there is no git. */
export async function listProject(options: ProjectOptions): Promise<string[]> {
  const directory = resolve(options.directory)
  const found: string[] = []
  await collect(directory, '', found, gitEnv(options.env), options.onNotText)
  const excluded = options.exclude.map((path) => relative(directory, resolve(path)))
  return found
    .filter((path) => isText(directory, path, options.onNotText))
    .filter((path) => !excluded.some((out) => out !== '' && (path === out || path.startsWith(`${out}/`))))
    .sort()
}

/** Every file below a directory, `.git` and ignored ones too. */
export async function listFiles(directory: string): Promise<string[]> {
  const found: string[] = []
  await walk(resolve(directory), '', found, () => false)
  return found.sort()
}

const isGit = (name: string): boolean => name === '.git'

/** A name that is not UTF-8 is read with U+FFFD in its place, and there is no file of that name. */
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
  // Inside a submodule that was not fetched, git lists the directory itself.
  if (listed === undefined || listed.includes('./')) return walk(root, prefix, found, isGit)
  const isReal = realDirectories(root)
  for (const name of listed) {
    const path = join(prefix, name.replace(/\/$/, ''))
    // SECURITY: an index may name what lies outside, by `..` or behind a directory that is a link by now (GT-02).
    if (path === '..' || path.startsWith('../') || !isReal(dirname(path))) continue
    // Tens of thousands of files: a system call each, and no turn of a thread for it.
    const info = look(join(root, path))
    // Tracked and deleted since: the copy lacks it as the directory does.
    if (!info) {
      isText(root, path, onNotText)
      continue
    }
    // A submodule or a repository inside the repository lists its own files.
    if (info.isDirectory()) await collect(root, path, found, env, onNotText)
    else add(found, path)
  }
}

/** Undefined where there is nothing, or nothing that may be looked at. */
export function look(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/** Whether a path below the root is reached through directories alone; each is looked at once. */
function realDirectories(root: string): (path: string) => boolean {
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

/** What git tracks, and what is there and not ignored. Undefined where there is no repository or no git. */
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

/** Git as the user has it, but without variables that point it elsewhere. */
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
  if (found.length >= MOST_FILES) {
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'project.too_large',
      message: `the project has more than ${MOST_FILES} files`,
      hint: 'start in a smaller directory, or list what is not needed in .gitignore',
    })
  }
  found.push(path)
}

export function unreadable(path: string, error: NodeJS.ErrnoException): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'project.unreadable',
    message: `cannot read ${path}: ${error.code ?? error.message}`,
    hint: 'change its permissions, or list it in .gitignore',
    cause: error,
  })
}
