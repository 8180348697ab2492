/**
 * Writes files from a sandbox into the user's working tree. SECURITY: it does not use git, which would run
 * filters and hooks (GT-02, GT-04). Every directory of a path is opened in turn without following links, and
 * the change is made in the open directory. So no link can redirect a write, even if it is created in the
 * meantime.
 */
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs'
import { AgentPodError } from '../../../core/error.ts'
import { isSyncFile, nameRefusal } from '../../two-way/path-rules.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

export type SeenPath =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'file'
      readonly stamp: string
      readonly mode: number
      readonly sizeBytes: number
    }
  | { readonly kind: 'link'; readonly stamp: string; readonly target: Buffer }
  | { readonly kind: 'directory' }
  /** Something of another kind, or a file or link where a directory must be: `at` is its path. */
  | { readonly kind: 'blocked'; readonly at: string }

export const ABSENT_PATH: SeenPath = { kind: 'absent' }

export class WorkTree implements Disposable {
  readonly #root: number

  constructor(root: string) {
    this.#root = openSync(root, O_RDONLY | O_DIRECTORY)
  }

  [Symbol.dispose](): void {
    closeSync(this.#root)
  }

  look(path: string): SeenPath {
    const found = this.#in(path, false, (directory, name) => seenAt(directory, name, path))
    return found ?? ABSENT_PATH
  }

  /** The content of the file that was seen; undefined if it has changed or is larger than `mostBytes`. */
  read(path: string, seen: SeenPath & { kind: 'file' }, mostBytes: number): Buffer | undefined {
    if (seen.sizeBytes > mostBytes) return undefined
    const content = this.#in(path, false, (directory, name) => {
      const file = openSync(`${directory}/${name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      try {
        return stampOf(fstatSync(file)) === seen.stamp ? contentOf(file, seen.sizeBytes) : undefined
      } finally {
        closeSync(file)
      }
    })
    return Buffer.isBuffer(content) ? content : undefined
  }

  /** Names in a directory; empty if there is no directory. */
  list(path: string): string[] {
    const found = this.#in(`${path}/x`, false, (directory) => readdirSync(directory))
    return Array.isArray(found) ? found : []
  }

  /** Renames a staged file into place. False if the path is no longer as it was seen. */
  settle(ready: string, path: string, seen: SeenPath): boolean {
    if (seen.kind === 'absent') this.#removeHollow(path)
    const isDone = this.#in(path, true, (directory, name) => {
      if (!isSame(seenAt(directory, name, path), seen)) return false
      if (seen.kind !== 'absent') renameSync(ready, `${directory}/${name}`)
      else if (!nameNew(ready, `${directory}/${name}`)) return false
      return true
    })
    return isDone === true
  }

  /** Removes the file that was seen, and directories that become empty. */
  remove(path: string, seen: SeenPath): boolean {
    const isDone = this.#in(path, false, (directory, name) => {
      if (!isSame(seenAt(directory, name, path), seen)) return false
      unlinkSync(`${directory}/${name}`)
      return true
    })
    if (isDone !== true) return false
    this.#removeEmpty(path)
    return true
  }

  /** Removes directories that contain nothing but empty directories: git does not know them. */
  #removeHollow(path: string): void {
    if (this.look(path).kind !== 'directory') return
    for (const name of this.list(path)) this.#removeHollow(`${path}/${name}`)
    this.#removeDirectory(path)
  }

  #removeEmpty(path: string): void {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
      if (!this.#removeDirectory(path.slice(0, end))) return
  }

  #removeDirectory(path: string): boolean {
    try {
      this.#in(path, false, (directory, name) => rmdirSync(`${directory}/${name}`))
      return true
    } catch {
      // It is not empty.
      return false
    }
  }

  /**
   * Acts in the directory of a path while it is open. Undefined if there is no directory; what is in the way,
   * if something is.
   */
  #in<T>(
    path: string,
    isMade: boolean,
    act: (directory: string, name: string) => T,
  ): T | SeenPath | undefined {
    const parts = partsOf(path)
    const name = parts.pop() ?? ''
    let at = this.#root
    try {
      for (const [i, part] of parts.entries()) {
        const next = enter(at, part, isMade)
        if (next === undefined) return undefined
        if (next === BLOCKED) return { kind: 'blocked', at: parts.slice(0, i + 1).join('/') }
        if (at !== this.#root) closeSync(at)
        at = next
      }
      return act(`/proc/self/fd/${at}`, name)
    } finally {
      if (at !== this.#root) closeSync(at)
    }
  }
}

const BLOCKED = -1

function enter(directory: number, name: string, isMade: boolean): number | undefined {
  const full = `/proc/self/fd/${directory}/${name}`
  for (const isLast of [false, true]) {
    try {
      return openSync(full, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOTDIR' || code === 'ELOOP') return BLOCKED
      if (code !== 'ENOENT') throw error
      if (!isMade || isLast) return undefined
      mkdirSync(full)
    }
  }
  return undefined
}

/**
 * SECURITY: refuses paths that git allows in a tree but that point outside or into git's own files (GT-06,
 * GT-07).
 */
function partsOf(path: string): string[] {
  const why = isSyncFile(path) ? undefined : nameRefusal(path)
  if (why === undefined) return path.split('/')
  throw new AgentPodError({
    code: 'data_loss',
    reason: 'apply.name',
    message: `${JSON.stringify(path)} is not written: ${why}`,
  })
}

function seenAt(directory: string, name: string, path: string): SeenPath {
  const full = `${directory}/${name}`
  const info = lstatSync(full, { throwIfNoEntry: false })
  if (!info) return ABSENT_PATH
  const stamp = stampOf(info)
  if (info.isFile()) return { kind: 'file', stamp, mode: info.mode & 0o777, sizeBytes: info.size }
  if (info.isSymbolicLink()) return { kind: 'link', stamp, target: readlinkSync(full, 'buffer') }
  return info.isDirectory() ? { kind: 'directory' } : { kind: 'blocked', at: path }
}

function stampOf({ ino, size, mtimeMs, ctimeMs, mode }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${ctimeMs} ${mode.toString(8)}`
}

function isSame(a: SeenPath, b: SeenPath): boolean {
  return a.kind === b.kind && ('stamp' in a ? 'stamp' in b && a.stamp === b.stamp : a.kind === 'absent')
}

function contentOf(file: number, sizeBytes: number): Buffer | undefined {
  const content = Buffer.allocUnsafe(sizeBytes)
  for (let at = 0; at < sizeBytes; ) {
    const count = readSync(file, content, at, sizeBytes - at, null)
    if (count === 0) return undefined
    at += count
  }
  return content
}

/** Creates a new name, without replacing a file that appeared in the meantime. */
function nameNew(ready: string, full: string): boolean {
  try {
    linkSync(ready, full)
    unlinkSync(ready)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP') throw error
    // Not every file system has hard links. The path was checked a moment ago.
    renameSync(ready, full)
    return true
  }
}
