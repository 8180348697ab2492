/**
 * The project on this machine, as one side of two-way sync. What is written here came out of a sandbox: nothing is written through a link,
 * nothing is written over what was not looked at, and everything is written under another name first.
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
import { isAgentPodError } from '../core/error.ts'
import { randomWord, systemRandom } from '../util/random.ts'
import { IN_REPOSITORY, makesRepository } from './bare-repository.ts'
import { listProject, type ProjectOptions } from './project.ts'
import { isGone, type State } from './two-way-decide.ts'
import { DirectoryWatches } from './two-way-host-watch.ts'
import { ignoredPaths } from './two-way-ignored.ts'
import { badLink, CONFLICT_MARK, PARTIAL_MARK } from './two-way-path.ts'
import {
  CHANGED,
  type Content,
  type HostSide,
  type Mark,
  type News,
  NOTHING,
  type Outcome,
} from './two-way-side.ts'
import { makeParents } from './untar.ts'

/** A file that is larger is not synced. */
export const LARGEST_BYTES = 256 * 1024 * 1024

const CHUNK = 256 * 1024
const READ_ONLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const WRITE_NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** So many looks are one piece of work: other things get their turn in between. */
const LOOKS_AT_ONCE = 1000
const MOST_COPIES = 10_000

export interface HostOptions extends ProjectOptions {
  /** Directories of the project that are not synced, relative to it. */
  readonly aside: readonly string[]
}

export class Host implements HostSide {
  readonly #options: HostOptions
  readonly #root: string
  readonly #outside: readonly string[]
  #watches: DirectoryWatches | undefined
  #tell: (news: News) => void = () => undefined

  constructor(options: HostOptions) {
    this.#options = options
    this.#root = realpathSync(resolve(options.directory))
    this.#outside = [
      ...options.aside,
      ...options.exclude.map((path) => relative(this.#root, resolve(path))).filter((path) => path !== ''),
    ]
  }

  get isWatching(): boolean {
    return this.#watches?.isComplete ?? false
  }

  /** Directories that are not synced, relative to the project. */
  get outside(): readonly string[] {
    return this.#outside
  }

  async scan(): Promise<Map<string, Mark>> {
    const files = (await listProject(this.#options)).filter((path) => !this.#isOutside(path))
    // What is looked at after the watch is in place is not missed between the two.
    if (this.#watches?.follow(directoriesOf(files))) this.#tell('all')
    return this.#marks(files, (path) => markAt(join(this.#root, path)))
  }

  look(paths: readonly string[]): Promise<Map<string, Mark>> {
    const isReal = realDirectories(this.#root)
    // SECURITY: what lies behind a link is not the project's, wherever the link leads.
    return this.#marks(paths, (path) => (isReal(dirname(path)) ? markAt(join(this.#root, path)) : NOTHING))
  }

  async #marks(
    paths: readonly string[],
    markOf: (path: string) => Mark | undefined,
  ): Promise<Map<string, Mark>> {
    const marks = new Map<string, Mark>()
    for (const [i, path] of paths.entries()) {
      if (i % LOOKS_AT_ONCE === LOOKS_AT_ONCE - 1) await new Promise((resolve) => setImmediate(resolve))
      const mark = attempt(() => markOf(path))
      if (mark) marks.set(path, mark)
    }
    return marks
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

  async read(path: string): Promise<Content> {
    if (!realDirectories(this.#root)(dirname(path))) throw new Error(`${path} lies behind a link`)
    const handle = await open(join(this.#root, path), READ_ONLY)
    return pieces(handle)
  }

  async ignored(paths: readonly string[]): Promise<Set<string>> {
    const isReal = realDirectories(this.#root)
    const outside = paths.filter((path) => this.#isOutside(path))
    // Git refuses to speak about what lies behind a link; such a path finds the link in its way later on.
    const asked = paths.filter((path) => !this.#isOutside(path) && isReal(dirname(path)))
    const ignored = asked.length === 0 ? [] : await ignoredPaths(this.#root, asked, this.#options.env)
    return new Set([...outside, ...ignored])
  }

  #isOutside(path: string): boolean {
    return this.#outside.some((out) => path === out || path.startsWith(`${out}/`))
  }

  watch(tell: (news: News) => void): Disposable {
    this.#tell = tell
    this.#watches = new DirectoryWatches(this.#root, tell)
    return this.#watches
  }

  async put(path: string, expected: Mark, state: State, content: () => Promise<Content>): Promise<Outcome> {
    try {
      if (isGone(state)) return this.#remove(path, expected)
      // SECURITY: GT-15.
      if (makesRepository(this.#root, path)) return { status: 'failed', why: IN_REPOSITORY }
      if (!(await makeParents(this.#root, dirname(path))))
        return { status: 'failed', why: 'a link or a file stands in its way', isInTheWay: true }
      return state.kind === 'link'
        ? await this.#putLink(path, expected, state)
        : await this.#putFile(path, expected, state.kind === 'file' && state.isExecutable, content)
    } catch (error) {
      // What was to be written is no plain file any more.
      if (isAgentPodError(error, 'not_found') || isAgentPodError(error, 'invalid_argument')) return CHANGED
      if (isAgentPodError(error)) throw error
      return { status: 'failed', why: reasonOf(error) }
    }
  }

  async #putLink(path: string, expected: Mark, state: State & { kind: 'link' }): Promise<Outcome> {
    const why = await badLink(this.#root, path, state.target)
    if (why !== undefined) return { status: 'failed', why }
    const partial = this.#partial(path)
    symlinkSync(state.target, partial)
    const stamp = stampOf(lstatSync(partial))
    return this.#settle(partial, path, expected) ? { status: 'done', stamp, state } : CHANGED
  }

  async #putFile(
    path: string,
    expected: Mark,
    isExecutable: boolean,
    content: () => Promise<Content>,
  ): Promise<Outcome> {
    const partial = this.#partial(path)
    const before = lstatSync(join(this.#root, path), { throwIfNoEntry: false })
    const handle = await open(partial, WRITE_NEW, isExecutable ? 0o777 : 0o666)
    try {
      const hash = await copy(await content(), handle)
      if (before?.isFile()) await handle.chmod(executable(before.mode & 0o777, isExecutable))
      const stamp = stampOf(await handle.stat())
      await handle.close()
      if (!this.#settle(partial, path, expected)) return CHANGED
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
   * Gives what was written its name, if what had the name is still as it was looked at. The look and the renaming are one step of this
   * process, with nothing awaited in between.
   */
  #settle(partial: string, path: string, expected: Mark): boolean {
    const full = join(this.#root, path)
    try {
      if (!isSameMark(markAt(full), expected)) return false
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

  #remove(path: string, expected: Mark): Outcome {
    const full = join(this.#root, path)
    if (!realDirectories(this.#root)(dirname(path)) || !isSameMark(markAt(full), expected)) return CHANGED
    unlinkSync(full)
    this.#removeEmpty(dirname(path))
    return { status: 'done', stamp: undefined, state: { kind: 'absent' } }
  }

  /** Directories follow their files, as in git. One that holds anything stays. */
  #removeEmpty(directory: string): void {
    for (let at = directory; at !== '.'; at = dirname(at)) {
      try {
        rmdirSync(join(this.#root, at))
      } catch {
        return
      }
    }
  }

  async putBeside(path: string, content: () => Promise<Content>): Promise<string> {
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
    if (!(await makeParents(this.#root, dirname(path)))) throw new Error(`${path} has no directory`)
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

export function markAt(full: string): Mark | undefined {
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
    return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG' ? NOTHING : undefined
  }
}

/** Not the time of the last change of status: giving a file its name would change it. */
function stampOf({ ino, size, mtimeMs, mode }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${(mode & 0o777).toString(8)}`
}

function isSameMark(a: Mark | undefined, b: Mark): boolean {
  if (a === undefined || a.kind !== b.kind) return false
  return !('stamp' in a && 'stamp' in b) || a.stamp === b.stamp
}

/** Whether a directory of the project is reached through directories alone. What is not there is no link. */
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

/** The first part of the path to it that is there and is no directory; the path itself where there is none. */
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
    if (!(await handle.stat()).isFile()) throw new Error('it is no plain file')
    for (;;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK)
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}

/** SECURITY: the length is what comes, whatever was said before. */
async function copy(content: Content, handle: FileHandle): Promise<string> {
  const hash = createHash('sha256')
  let size = 0
  for await (const piece of content) {
    size += piece.length
    if (size > LARGEST_BYTES) throw new Error(TOO_LARGE)
    hash.update(piece)
    await handle.writeFile(piece)
  }
  return hash.digest('hex')
}

export const TOO_LARGE = `it is larger than ${LARGEST_BYTES / 1024 / 1024} MiB`

/** A name that nobody had: whoever takes it first keeps it. */
function nameNew(partial: string, full: string): void {
  try {
    linkSync(partial, full)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP') throw error
    // Not every file system has links. The look is a moment old.
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
    // It has its name, or never was.
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EACCES: 'it may not be written',
  EPERM: 'it may not be written',
  EROFS: 'the disk is read-only',
  ENAMETOOLONG: 'its name is too long',
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? message
}
