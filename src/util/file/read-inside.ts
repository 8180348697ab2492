/**
 * Reads files of a directory that untrusted programs write to: a link may lead anywhere and change at any
 * time.
 */
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync } from 'node:fs'
import { join } from 'node:path'

export interface FileInside {
  readonly data: Buffer
  /** Relative to the root, after links. */
  readonly realPath: string
  readonly isExecutable: boolean
}

/**
 * Reads a regular file of at most `mostBytes` that really is below `root`, whose own path must have no link.
 * Undefined for anything else.
 *
 * SECURITY: CF-02. The file is opened once, and the open file is checked and read, so a link cannot be
 * swapped in.
 */
export function readInside(root: string, path: string, mostBytes: number): FileInside | undefined {
  const { O_RDONLY, O_NONBLOCK } = constants
  let descriptor: number
  try {
    descriptor = openSync(join(root, path), O_RDONLY | O_NONBLOCK)
  } catch {
    return undefined
  }
  try {
    const info = fstatSync(descriptor)
    if (!info.isFile() || info.size > mostBytes) return undefined
    const opened = readlinkSync(`/proc/self/fd/${descriptor}`)
    if (!opened.startsWith(`${root}/`)) return undefined
    const data = contentOf(descriptor, mostBytes)
    return data && { data, realPath: opened.slice(root.length + 1), isExecutable: (info.mode & 0o100) !== 0 }
  } catch {
    return undefined
  } finally {
    closeSync(descriptor)
  }
}

/**
 * The same, if the file is in a list under its real path.
 *
 * SECURITY: CF-05. A link in the list may lead to a file that is not in it, such as one that git ignores.
 */
export function readListed(
  root: string,
  path: string,
  o: { readonly mostBytes: number; isListed(path: string): boolean },
): FileInside | undefined {
  const found = readInside(root, path, o.mostBytes)
  return found && o.isListed(found.realPath) ? found : undefined
}

/** Does not trust the size: a file may grow, and some report a size of 0. */
function contentOf(descriptor: number, mostBytes: number): Buffer | undefined {
  const pieces: Buffer[] = []
  for (let left = mostBytes + 1; left > 0; ) {
    const piece = Buffer.allocUnsafe(Math.min(left, 64 * 1024))
    const count = readSync(descriptor, piece, 0, piece.length, null)
    if (count === 0) return Buffer.concat(pieces)
    pieces.push(piece.subarray(0, count))
    left -= count
  }
  return undefined
}
