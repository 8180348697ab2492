/**
 * The project on this machine, as one side of two-way sync. What it writes comes from a sandbox: it never
 * writes through a link, never overwrites a file that it has not checked, and writes everything under another
 * name first.
 */
import { createHash } from 'node:crypto'
import {
  constants,
  linkSync,
  lstatSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  type Stats,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { isAgentPodError } from '../../core/error.ts'
import { randomWord, systemRandom } from '../../util/random.ts'
import { IN_REPOSITORY, makesRepository } from '../bare-repository.ts'
import { listProject, type ProjectOptions } from '../project-files.ts'
import { makeParents } from '../untar.ts'
import { isAbsent, type PathState } from './decide-path.ts'
import { DirectoryWatches } from './directory-watches.ts'
import { ignoredPaths } from './git-ignored.ts'
import { CONFLICT_MARK, linkRefusal, PARTIAL_MARK } from './path-rules.ts'
import {
  ABSENT_STAT,
  ALREADY_CHANGED,
  type ChangeNotice,
  type ChangeOutcome,
  type ContentStream,
  type HostSide,
  type PathStat,
} from './side.ts'

/** Larger files are not synced. */
export const LARGEST_SYNCED_BYTES = 256 * 1024 * 1024

const CHUNK = 256 * 1024
const READ_ONLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const WRITE_NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** Stats per batch; other work of the process runs between batches. */
const LOOKS_AT_ONCE = 1000
const MOST_COPIES = 10_000

export interface HostDirectoryOptions extends ProjectOptions {
  /** Directories that are not synced, relative to the project. */
  readonly unsynced: readonly string[]
}

export class HostDirectory implements HostSide {
  readonly #options: HostDirectoryOptions
  readonly #root: string
  readonly #unsynced: readonly string[]
  #watches: DirectoryWatches | undefined
  #tell: (news: ChangeNotice) => void = () => undefined

  constructor(options: HostDirectoryOptions) {
    this.#options = options
    this.#root = realpathSync(resolve(options.directory))
    this.#unsynced = [
      ...options.unsynced,
      ...options.exclude.map((path) => relative(this.#root, resolve(path))).filter((path) => path !== ''),
    ]
  }

  get isWatching(): boolean {
    return this.#watches?.isComplete ?? false
  }

  /** Directories that are not synced, relative to the project. */
  get unsynced(): readonly string[] {
    return this.#unsynced
  }

  async scan(): Promise<Map<string, PathStat>> {
    const files = (await listProject(this.#options)).filter((path) => !this.#isUnsynced(path))
    // Stat after the watch is in place, so that no change is missed in between.
    if (this.#watches?.follow(directoriesOf(files))) this.#tell('all')
    return this.#stats(files, (path) => statAt(join(this.#root, path)))
  }

  look(paths: readonly string[]): Promise<Map<string, PathStat>> {
    const isReal = realDirectories(this.#root)
    // SECURITY: a path behind a link is not part of the project, wherever the link points.
    return this.#stats(paths, (path) =>
      isReal(dirname(path)) ? statAt(join(this.#root, path)) : ABSENT_STAT,
    )
  }

  async #stats(
    paths: readonly string[],
    statOf: (path: string) => PathStat | undefined,
  ): Promise<Map<string, PathStat>> {
    const stats = new Map<string, PathStat>()
    for (const [i, path] of paths.entries()) {
      if (i % LOOKS_AT_ONCE === LOOKS_AT_ONCE - 1) await new Promise((resolve) => setImmediate(resolve))
      const stat = attempt(() => statOf(path))
      if (stat) stats.set(path, stat)
    }
    return stats
  }

  async hash(paths: readonly string[]): Promise<Map<string, string>> {
    const hashes = new Map<string, string>()
    for (const path of paths) {
      const hash = await this.#hash(path).catch(() => undefined)
      if (hash !== undefined) hashes.set(path, hash)
    }
    return hashes
  }

  async #hash(path: string): Promise<string> {
    const hash = createHash('sha256')
    for await (const piece of await this.read(path)) hash.update(piece)
    return hash.digest('hex')
  }

  async read(path: string): Promise<ContentStream> {
    if (!realDirectories(this.#root)(dirname(path))) throw new Error(`${path} is behind a link`)
    const handle = await open(join(this.#root, path), READ_ONLY)
    return pieces(handle)
  }

  async ignored(paths: readonly string[]): Promise<Set<string>> {
    const isReal = realDirectories(this.#root)
    const outside = paths.filter((path) => this.#isUnsynced(path))
    // Git rejects paths behind a link. Writing such a path fails later, because the link is in the way.
    const asked = paths.filter((path) => !this.#isUnsynced(path) && isReal(dirname(path)))
    const ignored = asked.length === 0 ? [] : await ignoredPaths(this.#root, asked, this.#options.env)
    return new Set([...outside, ...ignored])
  }

  #isUnsynced(path: string): boolean {
    return this.#unsynced.some((out) => path === out || path.startsWith(`${out}/`))
  }

  watch(tell: (news: ChangeNotice) => void): Disposable {
    this.#tell = tell
    this.#watches = new DirectoryWatches(this.#root, tell)
    return this.#watches
  }

  async put(
    path: string,
    expected: PathStat,
    state: PathState,
    content: () => Promise<ContentStream>,
  ): Promise<ChangeOutcome> {
    try {
      if (isAbsent(state)) return this.#remove(path, expected)
      // SECURITY: GT-15.
      if (makesRepository(this.#root, path)) return { status: 'failed', why: IN_REPOSITORY }
      if (!(await makeParents(this.#root, dirname(path))))
        return { status: 'failed', why: 'a link or a file is in the way', isInTheWay: true }
      return state.kind === 'link'
        ? await this.#putLink(path, expected, state)
        : await this.#putFile(path, expected, state.kind === 'file' && state.isExecutable, content)
    } catch (error) {
      // The source is no longer a plain file.
      if (isAgentPodError(error, 'not_found') || isAgentPodError(error, 'invalid_argument'))
        return ALREADY_CHANGED
      if (isAgentPodError(error)) throw error
      return { status: 'failed', why: reasonOf(error) }
    }
  }

  async #putLink(
    path: string,
    expected: PathStat,
    state: PathState & { kind: 'link' },
  ): Promise<ChangeOutcome> {
    const why = await linkRefusal(this.#root, path, state.target)
    if (why !== undefined) return { status: 'failed', why }
    const partial = this.#partial(path)
    symlinkSync(state.target, partial)
    const stamp = stampOf(lstatSync(partial))
    return this.#settle(partial, path, expected) ? { status: 'done', stamp, state } : ALREADY_CHANGED
  }

  async #putFile(
    path: string,
    expected: PathStat,
    isExecutable: boolean,
    content: () => Promise<ContentStream>,
  ): Promise<ChangeOutcome> {
    const partial = this.#partial(path)
    const before = lstatSync(join(this.#root, path), { throwIfNoEntry: false })
    const handle = await open(partial, WRITE_NEW, isExecutable ? 0o777 : 0o666)
    try {
      const hash = await copy(await content(), handle)
      if (before?.isFile()) await handle.chmod(executable(before.mode & 0o777, isExecutable))
      const stamp = stampOf(await handle.stat())
      await handle.close()
      if (!this.#settle(partial, path, expected)) return ALREADY_CHANGED
      return { status: 'done', stamp, state: { kind: 'file', hash, isExecutable } }
    } catch (error) {
      await handle.close().catch(() => undefined)
      forget(partial)
      throw error
    }
  }

  #partial(path: string): string {
    return join(this.#root, dirname(path), `${PARTIAL_MARK}${randomWord(systemRandom, 12)}`)
  }

  /**
   * Renames the written file into place, if the path is still as expected. The check and the rename are one
   * synchronous step: nothing is awaited in between.
   */
  #settle(partial: string, path: string, expected: PathStat): boolean {
    const full = join(this.#root, path)
    try {
      if (!isSameStat(statAt(full), expected)) return false
      if (expected.kind === 'absent') nameNew(partial, full)
      else renameSync(partial, full)
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    } finally {
      forget(partial)
    }
  }

  #remove(path: string, expected: PathStat): ChangeOutcome {
    const full = join(this.#root, path)
    if (!realDirectories(this.#root)(dirname(path)) || !isSameStat(statAt(full), expected))
      return ALREADY_CHANGED
    unlinkSync(full)
    this.#removeEmpty(dirname(path))
    return { status: 'done', stamp: undefined, state: { kind: 'absent' } }
  }

  /** Removes directories that became empty, as git does. */
  #removeEmpty(directory: string): void {
    for (let at = directory; at !== '.'; at = dirname(at)) {
      try {
        rmdirSync(join(this.#root, at))
      } catch {
        return
      }
    }
  }

  async writeConflictCopy(path: string, content: () => Promise<ContentStream>): Promise<string> {
    const { name, handle } = await this.#newCopy(obstacle(this.#root, path))
    try {
      await copy(await content(), handle)
      return name
    } catch (error) {
      forget(join(this.#root, name))
      throw error
    } finally {
      await handle.close()
    }
  }

  async #newCopy(path: string): Promise<{ readonly name: string; readonly handle: FileHandle }> {
    if (!(await makeParents(this.#root, dirname(path))))
      throw new Error(`the directory of ${path} could not be created`)
    let isLong = false
    for (let n = 1; n <= MOST_COPIES; n++) {
      const mark = `${CONFLICT_MARK}${n}`
      const name = isLong ? join(dirname(path), mark) : `${path}.${mark}`
      try {
        return { name, handle: await open(join(this.#root, name), WRITE_NEW, 0o666) }
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'EEXIST' && (code !== 'ENAMETOOLONG' || isLong)) throw error
        if (code === 'ENAMETOOLONG') n--
        isLong ||= code === 'ENAMETOOLONG'
      }
    }
    throw new Error(`${path} has ${MOST_COPIES} copies already`)
  }
}

export function statAt(full: string): PathStat | undefined {
  try {
    const info = lstatSync(full)
    if (info.isFile()) {
      const { size, mtimeMs, mode } = info
      const stamp = stampOf(info)
      return { kind: 'file', sizeBytes: size, isExecutable: (mode & 0o100) !== 0, modifiedMs: mtimeMs, stamp }
    }
    if (info.isSymbolicLink()) return { kind: 'link', target: readlinkSync(full), stamp: stampOf(info) }
    return { kind: 'blocked', isDirectory: info.isDirectory() }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG' ? ABSENT_STAT : undefined
  }
}

/** Without ctime, which changes when the file is renamed into place. */
function stampOf({ ino, size, mtimeMs, mode }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${(mode & 0o777).toString(8)}`
}

function isSameStat(a: PathStat | undefined, b: PathStat): boolean {
  if (a === undefined || a.kind !== b.kind) return false
  return !('stamp' in a && 'stamp' in b) || a.stamp === b.stamp
}

/** Whether no part of a directory's path is a link or a file. Parts that do not exist are fine. */
function realDirectories(root: string): (path: string) => boolean {
  const known = new Map<string, boolean>([['.', true]])
  const isReal = (path: string): boolean => {
    const found =
      known.get(path) ??
      (isReal(dirname(path)) &&
        (lstatSync(join(root, path), { throwIfNoEntry: false })?.isDirectory() ?? true))
    known.set(path, found)
    return found
  }
  return isReal
}

/** The first existing part of the path that is not a directory; the path itself if there is none. */
function obstacle(root: string, path: string): string {
  const parts = path.split('/')
  for (let count = 1; count < parts.length; count++) {
    const above = parts.slice(0, count).join('/')
    const info = lstatSync(join(root, above), { throwIfNoEntry: false })
    if (!info) return path
    if (!info.isDirectory()) return above
  }
  return path
}

function directoriesOf(files: readonly string[]): Set<string> {
  const found = new Set<string>([''])
  for (const file of files)
    for (let at = dirname(file); at !== '.' && !found.has(at); at = dirname(at)) found.add(at)
  return found
}

async function* pieces(handle: FileHandle): AsyncGenerator<Buffer> {
  try {
    if (!(await handle.stat()).isFile()) throw new Error('it is not a regular file')
    for (;;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK)
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}

/** SECURITY: counts the bytes that arrive, whatever size was announced. */
async function copy(content: ContentStream, handle: FileHandle): Promise<string> {
  const hash = createHash('sha256')
  let size = 0
  for await (const piece of content) {
    size += piece.length
    if (size > LARGEST_SYNCED_BYTES) throw new Error(TOO_LARGE)
    hash.update(piece)
    await handle.writeFile(piece)
  }
  return hash.digest('hex')
}

export const TOO_LARGE = `it is larger than ${LARGEST_SYNCED_BYTES / 1024 / 1024} MiB`

/** Creates a new name, without replacing a file that appeared in the meantime. */
function nameNew(partial: string, full: string): void {
  try {
    linkSync(partial, full)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP') throw error
    // Not every file system has hard links. The path was checked a moment ago.
    renameSync(partial, full)
  }
}

function executable(mode: number, isExecutable: boolean): number {
  return isExecutable ? mode | ((mode & 0o444) >> 2) : mode & ~0o111
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}

function forget(full: string): void {
  try {
    unlinkSync(full)
  } catch {
    // It was renamed into place, or never created.
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the disk is read-only',
  ENAMETOOLONG: 'its name is too long',
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? message
}
