/** Finds the differences between the user's working copy and its index, without changing either. */
import { accessSync, constants, lstatSync, type Stats } from 'node:fs'
import { relative, resolve } from 'node:path'
import { AgentPodError } from '../../../core/error.ts'
import { unreadable } from '../../project-files.ts'
import {
  type ByteName,
  byteName,
  byteNames,
  bytePath,
  displayName,
  nulTerminated,
} from '../plumbing/byte-names.ts'
import { type GitOptions, git, gitFailed } from '../plumbing/git.ts'

/** Larger uncommitted files are refused, because they would be copied with every state. */
export const LARGE_FILE_BYTES = 100 * 1024 * 1024
const MOST_NESTED = 1000

export interface Differences {
  /** Existing files that are changed, or new and not ignored. */
  readonly present: readonly ByteName[]
  /** In the index, but no longer there. */
  readonly gone: readonly ByteName[]
  /** The files of `present` that are not in the index. */
  readonly untracked: ReadonlySet<ByteName>
  readonly notes: readonly string[]
}

/** `exclude` are absolute paths to skip. */
export async function differences(o: GitOptions, exclude: readonly string[]): Promise<Differences> {
  const out = exclude.map((path) => byteName(relative(o.cwd, resolve(path)))).filter(isBelow)
  const [changed, others] = await Promise.all([changedFiles(o), otherFiles(o, out)])
  const notes = [...others.notes]
  const gone = changed.filter(({ isGone }) => isGone).map(({ name }) => name)
  const present: ByteName[] = []
  const candidates = [
    ...new Set([...changed.filter(({ isGone }) => !isGone).map(({ name }) => name), ...others.names]),
  ]
  for (const name of candidates) {
    if (out.some((path) => name === path || name.startsWith(`${path}/`))) continue
    const info = statOf(o.cwd, name)
    // It disappeared after it was listed.
    if (info === undefined) gone.push(name)
    else if (info.isFile() || info.isSymbolicLink()) present.push(name)
    else {
      gone.push(name)
      notes.push(`${displayName(name)} is neither a file nor a link, and was left out`)
    }
  }
  return { present, gone, untracked: new Set(others.names), notes }
}

/** Refuses files that cannot or should not be copied. */
export function checkFiles(root: string, names: readonly ByteName[]): void {
  for (const name of names) {
    const info = statOf(root, name)
    if (!info?.isFile()) continue
    if (info.size > LARGE_FILE_BYTES) throw largeFile(name, info.size)
    try {
      accessSync(bytePath(root, name), constants.R_OK)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        throw unreadable(displayName(name), error as NodeJS.ErrnoException)
    }
  }
}

function isBelow(path: string): boolean {
  return path !== '' && path !== '..' && !path.startsWith('../')
}

function statOf(root: string, name: ByteName): Stats | undefined {
  try {
    return lstatSync(bytePath(root, name), { throwIfNoEntry: false })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw unreadable(displayName(name), error as NodeJS.ErrnoException)
  }
}

/** Compares times and sizes with the index; git reads a file only if these do not decide. */
async function changedFiles(o: GitOptions): Promise<{ name: ByteName; isGone: boolean }[]> {
  const args = ['diff-files', '--raw', '-z', '--no-renames', '--ignore-submodules=all']
  const answer = await git(args, o)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const fields = byteNames(answer.stdout)
  const found = new Map<ByteName, boolean>()
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const [kind, name] = [fields[i]?.at(-1), fields[i + 1] ?? '']
    // A conflict may be listed twice; whether its file exists is checked later.
    found.set(name, kind === 'D' && found.get(name) !== false)
  }
  return [...found].map(([name, isGone]) => ({ name, isGone }))
}

/**
 * Files that are neither in the index nor ignored. A nested repository that is not a submodule counts as a
 * directory.
 */
async function otherFiles(
  o: GitOptions,
  out: readonly ByteName[],
): Promise<{ names: readonly ByteName[]; notes: readonly string[] }> {
  const top = await untrackedIn(o, out)
  const [names, notes] = [top.names, [...top.notes]]
  const nested = [...top.nested]
  for (let at = 0; at < nested.length; at++) {
    if (at >= MOST_NESTED) throw tooManyNested()
    const prefix = nested[at] ?? ''
    const inside = await untrackedBelow(o, prefix)
    if (inside === undefined) {
      notes.push(`${displayName(prefix)} was left out: its name is not plain text`)
      continue
    }
    const found = await notIgnored(
      o,
      inside.names.map((name) => prefix + name),
    )
    for (const name of found) names.push(name)
    notes.push(
      ...inside.notes,
      `${displayName(prefix)} is a nested repository: its files were copied, its history was not`,
    )
    nested.push(...inside.nested.map((name) => prefix + name))
  }
  return { names, notes }
}

/** Uses its own ignore rules and no index. Undefined if its name cannot be a working directory. */
async function untrackedBelow(o: GitOptions, prefix: ByteName): Promise<Untracked | undefined> {
  const directory = bytePath(o.cwd, prefix)
  const cwd = directory.toString('utf8')
  if (!Buffer.from(cwd).equals(directory)) return undefined
  const variables = { ...o.variables, GIT_WORK_TREE: cwd, GIT_INDEX_FILE: `${o.variables?.['GIT_DIR']}/none` }
  return await untrackedIn({ ...o, cwd, variables }, [])
}

interface Untracked {
  readonly names: ByteName[]
  /** Ends with a slash. */
  readonly nested: readonly ByteName[]
  readonly notes: readonly string[]
}

async function untrackedIn(o: GitOptions, out: readonly ByteName[]): Promise<Untracked> {
  const args = [
    'ls-files',
    '--others',
    '-z',
    '--exclude-standard',
    ...out.map((path) => `--exclude=${pattern(path)}`),
  ]
  const answer = await git(args, o)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const found = byteNames(answer.stdout)
  const notes = [...answer.stderr.matchAll(/could not open directory '([^'\n]*)'/g)].map(
    ([, name]) => `${displayName(byteName(name ?? ''))} cannot be read, and was left out`,
  )
  return {
    names: found.filter((name) => !name.endsWith('/')),
    // A directory that is not a repository after all is answered with itself.
    nested: found.filter((name) => name.endsWith('/') && name !== './'),
    notes,
  }
}

/** The ignore rules of the outer repository apply to a nested one too: ignored files may be secret. */
async function notIgnored(o: GitOptions, names: readonly ByteName[]): Promise<readonly ByteName[]> {
  if (names.length === 0) return names
  const args = ['check-ignore', '-z', '--stdin', '--no-index']
  const answer = await git(args, { ...o, input: nulTerminated(names) })
  if (answer.exitCode > 1) throw gitFailed(args, answer)
  const ignored = new Set(byteNames(answer.stdout))
  return names.filter((name) => !ignored.has(name))
}

/** A pattern that matches only this path, as text for an argument. */
function pattern(path: ByteName): string {
  const text = Buffer.from(path, 'latin1').toString('utf8')
  return `/${text.replaceAll(/[\\*?[\] ]/g, '\\$&')}`
}

function largeFile(name: ByteName, bytes: number): AgentPodError {
  const size = bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.ceil(bytes / 2 ** 20)} MiB`
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'project.large_file',
    message: `${displayName(name)} is not committed and has ${size}; uncommitted files may have at most ${LARGE_FILE_BYTES / 2 ** 20} MiB`,
    hint: 'add it to .gitignore, commit it, or leave out uncommitted files with --clean',
  })
}

function tooManyNested(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'project.too_large',
    message: `the project has more than ${MOST_NESTED} nested repositories that are not submodules`,
    hint: 'add the directory that holds them to .gitignore',
  })
}
