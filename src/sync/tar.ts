/** Writes files as a tar stream (ustar, with pax headers for what does not fit). */
import { constants } from 'node:fs'
import { lstat, open, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { unreadable } from './project-files.ts'

const BLOCK = 512
const CHUNK = 256 * 1024

/** A tar stream of the named files below a directory. Symlinks stay symlinks; modes and times are kept. */
export function packFiles(directory: string, paths: readonly string[]): Readable {
  return Readable.from(gather(entries(directory, paths)), { objectMode: false, highWaterMark: CHUNK })
}

/** Joins small pieces, so that a thousand small files are not thousands of writes. */
async function* gather(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let batch: Buffer[] = []
  let size = 0
  for await (const piece of pieces) {
    batch.push(piece)
    size += piece.length
    if (size < CHUNK) continue
    yield Buffer.concat(batch)
    batch = []
    size = 0
  }
  batch.push(Buffer.alloc(2 * BLOCK))
  yield Buffer.concat(batch)
}

async function* entries(directory: string, paths: readonly string[]): AsyncGenerator<Buffer> {
  for (const path of paths) {
    const full = join(directory, path)
    const info = await lstat(full).catch(() => undefined)
    if (!info) continue
    const common = { path, mode: info.mode & 0o777, mtime: Math.floor(info.mtimeMs / 1000) }
    if (info.isSymbolicLink()) {
      yield* header({ ...common, type: '2', size: 0, link: await readlink(full) })
    } else if (info.isDirectory()) {
      yield* header({ ...common, path: `${path}/`, type: '5', size: 0 })
    } else if (info.isFile()) {
      yield* file(full, common)
    }
  }
}

/** A reproducible tar archive: sorted, with fixed times and owners. */
export function packContents(
  contents: readonly {
    readonly path: string
    /** Target of a link. */
    readonly data: Buffer
    readonly isExecutable: boolean
    readonly isLink?: boolean
  }[],
): Buffer {
  const parts: Buffer[] = []
  for (const { path, data, isExecutable, isLink } of contents.toSorted((a, b) =>
    a.path < b.path ? -1 : 1,
  )) {
    const mode = isExecutable ? 0o755 : 0o644
    if (isLink) {
      parts.push(
        ...header({ path, mode, mtime: FIXED_TIME, type: '2', size: 0, link: data.toString('utf8') }),
      )
      continue
    }
    parts.push(...header({ path, mode, mtime: FIXED_TIME, type: '0', size: data.length }), data)
    const over = data.length % BLOCK
    if (over > 0) parts.push(Buffer.alloc(BLOCK - over))
  }
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

/** 2001-09-09: older than any source file that replaces one of them later. */
const FIXED_TIME = 1_000_000_000

type Common = { path: string; mode: number; mtime: number }

async function* file(full: string, common: Common): AsyncGenerator<Buffer> {
  // No link is followed, even if one replaces the file after it was checked.
  const handle = await open(full, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error) => {
      throw unreadable(full, error)
    },
  )
  try {
    const { size } = await handle.stat()
    yield* header({ ...common, type: '0', size })
    let left = size
    while (left > 0) {
      const buffer = Buffer.allocUnsafe(Math.min(left, CHUNK))
      const { bytesRead } = await handle.read(buffer, 0, buffer.length)
      // A file that shrank while it was read is padded: the header was already sent.
      yield bytesRead === 0 ? Buffer.alloc(left) : buffer.subarray(0, bytesRead)
      left -= bytesRead === 0 ? left : bytesRead
    }
    const over = size % BLOCK
    if (over > 0) yield Buffer.alloc(BLOCK - over)
  } finally {
    await handle.close()
  }
}

interface Entry extends Common {
  readonly type: '0' | '2' | '5'
  readonly size: number
  readonly link?: string
}

function* header(entry: Entry): Generator<Buffer> {
  const records: [string, string][] = []
  if (Buffer.byteLength(entry.path) > 100 || !isAscii(entry.path)) records.push(['path', entry.path])
  if (entry.link !== undefined && (Buffer.byteLength(entry.link) > 100 || !isAscii(entry.link)))
    records.push(['linkpath', entry.link])
  if (entry.size > 0o77777777777) records.push(['size', String(entry.size)])
  if (records.length > 0) {
    const body = Buffer.concat(records.map(([key, value]) => paxRecord(key, value)))
    yield ustar({ path: 'pax', mode: 0o644, mtime: entry.mtime, type: 'x', size: body.length })
    yield body
    const over = body.length % BLOCK
    if (over > 0) yield Buffer.alloc(BLOCK - over)
  }
  yield ustar(entry)
}

function ustar(entry: Common & { type: string; size: number; link?: string }): Buffer {
  const block = Buffer.alloc(BLOCK)
  Buffer.from(entry.path).copy(block, 0, 0, 100)
  octal(block, entry.mode, 100, 8)
  octal(block, 0, 108, 8)
  octal(block, 0, 116, 8)
  octal(block, Math.min(entry.size, 0o77777777777), 124, 12)
  octal(block, Math.max(0, entry.mtime), 136, 12)
  block.fill(' ', 148, 156)
  block.write(entry.type, 156)
  if (entry.link !== undefined) Buffer.from(entry.link).copy(block, 157, 0, 100)
  block.write('ustar\u000000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}

function octal(block: Buffer, value: number, at: number, width: number): void {
  block.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at)
}

/** `<length> <key>=<value>\n`; the length includes itself. */
function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`
  const bytes = Buffer.byteLength(rest)
  let length = bytes + 1
  while (String(length).length + bytes !== length) length = String(length).length + bytes
  return Buffer.from(`${length}${rest}`)
}

function isAscii(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text)
}
