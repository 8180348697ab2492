/** Files of a directory that somebody else writes to: a link may lead anywhere, and may be another one at the next look. */
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync } from 'node:fs'
import { join } from 'node:path'

export interface ReadFile {
  readonly data: Buffer
  readonly isExecutable: boolean
}

/**
 * A plain file of at most so many bytes that really lies below the directory, whose own path has no link in it. Undefined for anything else.
 *
 * SECURITY: CF-02. The file is opened once, and what is opened is what is looked at and read: nobody can put a link there in between.
 */
export function readInside(root: string, path: string, mostBytes: number): ReadFile | undefined {
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
    if (!readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(`${root}/`)) return undefined
    const data = contentOf(descriptor, mostBytes)
    return data && { data, isExecutable: (info.mode & 0o100) !== 0 }
  } catch {
    return undefined
  } finally {
    closeSync(descriptor)
  }
}

/** Its size is not believed: a file may grow, and some say that they have none. */
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
