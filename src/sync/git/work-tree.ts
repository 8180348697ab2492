/**
 * The user's working tree, to write into what came out of a sandbox. SECURITY: git is not asked, as it would run filters and hooks (GT-02,
 * GT-04). Every directory on the way is opened for itself, without following a link, and what is done is done in the open directory: no
 * link leads out, and none that is put there meanwhile.
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
import { AgentPodError } from '../../core/error.ts'
import { badName, isOurs } from '../two-way-path.ts'

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

export type Seen =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'file'
      readonly stamp: string
      readonly mode: number
      readonly sizeBytes: number
    }
  | { readonly kind: 'link'; readonly stamp: string; readonly target: Buffer }
  | { readonly kind: 'directory' }
  /** Something of another kind, or a file or a link where a directory has to be: `at` is its path. */
  | { readonly kind: 'blocked'; readonly at: string }

export const ABSENT: Seen = { kind: 'absent' }

export class WorkTree implements Disposable {
  readonly #root: number

  constructor(root: string) {
    this.#root = openSync(root, O_RDONLY | O_DIRECTORY)
  }

  [Symbol.dispose](): void {
    closeSync(this.#root)
  }

  look(path: string): Seen {
    const found = this.#in(path, false, (directory, name) => seenAt(directory, name, path))
    return found ?? ABSENT
  }

  /** The content of what was seen there; undefined where it is another by now, or larger. */
  read(path: string, seen: Seen & { kind: 'file' }, mostBytes: number): Buffer | undefined {
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

  /** Names in a directory; none where there is no directory. */
  list(path: string): string[] {
    const found = this.#in(`${path}/x`, false, (directory) => readdirSync(directory))
    return Array.isArray(found) ? found : []
  }

  /** Gives a file that lies ready its name. False where what had the name is not what was seen. */
  settle(ready: string, path: string, seen: Seen): boolean {
    if (seen.kind === 'absent') this.#removeHollow(path)
    const isDone = this.#in(path, true, (directory, name) => {
      if (!isSame(seenAt(directory, name, path), seen)) return false
      if (seen.kind !== 'absent') renameSync(ready, `${directory}/${name}`)
      else if (!nameNew(ready, `${directory}/${name}`)) return false
      return true
    })
    return isDone === true
  }

  /** Removes what was seen, and directories that are empty then. */
  remove(path: string, seen: Seen): boolean {
    const isDone = this.#in(path, false, (directory, name) => {
      if (!isSame(seenAt(directory, name, path), seen)) return false
      unlinkSync(`${directory}/${name}`)
      return true
    })
    if (isDone !== true) return false
    this.#removeEmpty(path)
    return true
  }

  /** Directories that hold nothing but such directories are nothing to git. */
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
      // It holds something.
      return false
    }
  }

  /** Does something in the directory of a path, which is open meanwhile. Undefined where there is none; what blocks the way where something does. */
  #in<T>(path: string, isMade: boolean, act: (directory: string, name: string) => T): T | Seen | undefined {
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

/** SECURITY: what git may have in a tree, a path of ours must not be: outside, or git's own (GT-06, GT-07). */
function partsOf(path: string): string[] {
  const why = isOurs(path) ? undefined : badName(path)
  if (why === undefined) return path.split('/')
  throw new AgentPodError({
    code: 'data_loss',
    reason: 'apply.name',
    message: `${JSON.stringify(path)} is not written: ${why}`,
  })
}

function seenAt(directory: string, name: string, path: string): Seen {
  const full = `${directory}/${name}`
  const info = lstatSync(full, { throwIfNoEntry: false })
  if (!info) return ABSENT
  const stamp = stampOf(info)
  if (info.isFile()) return { kind: 'file', stamp, mode: info.mode & 0o777, sizeBytes: info.size }
  if (info.isSymbolicLink()) return { kind: 'link', stamp, target: readlinkSync(full, 'buffer') }
  return info.isDirectory() ? { kind: 'directory' } : { kind: 'blocked', at: path }
}

function stampOf({ ino, size, mtimeMs, ctimeMs, mode }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${ctimeMs} ${mode.toString(8)}`
}

function isSame(a: Seen, b: Seen): boolean {
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

/** A name that nobody had: whoever takes it first keeps it. */
function nameNew(ready: string, full: string): boolean {
  try {
    linkSync(ready, full)
    unlinkSync(ready)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP') throw error
    // Not every file system has links. The look is a moment old.
    renameSync(ready, full)
    return true
  }
}
