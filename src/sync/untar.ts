/**
 * Unpacks a tar stream from a sandbox. Every byte is hostile: names are checked, nothing is written through a
 * link, and only regular files, directories and links that stay inside are created.
 */
import { isUtf8 } from 'node:buffer'
import { constants } from 'node:fs'
import { lstat, mkdir, open, symlink, unlink } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { AgentPodError } from '../core/error.ts'
import { replaceHidden } from '../util/hidden-characters.ts'
import { NOT_TEXT } from './project-files.ts'

const BLOCK = 512
const LONGEST_NAME_BYTES = 4096
const LONGEST_PAX_BYTES = 64 * 1024
const SLASH = Buffer.from('/')
/** podd's record for paths that are not in the stream. */
const LEFT_OUT = 'AGENTPOD.leftout'
const LONGEST_REASON = 200

export interface Extracted {
  files: number
  bytes: number
  /** Skipped entries, each with the reason. */
  skipped: { path: string; why: string }[]
}

interface Entry {
  readonly path: string
  /**
   * Whether its name or link target is not UTF-8: several such names would become the same.
   */
  readonly isNotText: boolean
  readonly type: string
  readonly size: number
  readonly mode: number
  readonly link: string
}

/**
 * Writes the entries below `root`, a directory that nothing else may write to in the meantime.
 */
export async function extract(tar: AsyncIterable<Buffer>, root: string): Promise<Extracted> {
  const source = new Source(tar)
  const result: Extracted = { files: 0, bytes: 0, skipped: [] }
  for (;;) {
    const entry = await nextEntry(source, (one) => void result.skipped.push(one))
    if (!entry) return result
    await place(entry, source, root, result)
  }
}

/** Writes the single file of a stream to `target`. */
export async function extractFile(tar: AsyncIterable<Buffer>, target: string): Promise<Extracted> {
  const source = new Source(tar)
  const entry = await nextEntry(source)
  if (entry?.type !== '0') throw malformed('not a plain file')
  await writeFile(entry, source, target)
  return { files: 1, bytes: entry.size, skipped: [] }
}

async function place(entry: Entry, source: Source, root: string, result: Extracted): Promise<void> {
  const path = safePath(entry.path)
  const skip = async (why: string): Promise<void> => {
    result.skipped.push({ path: entry.path, why })
    await source.skip(entry.size + padding(entry.size))
  }
  if (entry.isNotText) return skip(NOT_TEXT)
  if (path === undefined) return skip('its name points outside the directory')
  if (path === '.') return source.skip(entry.size + padding(entry.size))
  // SECURITY: a link from an earlier entry is never followed (FS-06).
  if (!(await makeParents(root, entry.type === '5' ? path : dirname(path))))
    return skip('a link or a file is in the way')
  const target = join(root, path)
  if (entry.type === '5') return
  if (entry.type === '2') {
    if (!staysInside(path, entry.link)) return skip('the link points outside the directory')
    await clear(target)
    await symlink(entry.link, target)
    result.files++
    return
  }
  if (entry.type !== '0') return skip('not a plain file')
  await writeFile(entry, source, target)
  result.files++
  result.bytes += entry.size
}

async function writeFile(entry: Entry, source: Source, target: string): Promise<void> {
  await clear(target)
  const handle = await open(
    target,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
    entry.mode & 0o777,
  )
  try {
    for await (const piece of source.take(entry.size)) await handle.write(piece)
  } finally {
    await handle.close()
  }
  await source.skip(padding(entry.size))
}

/** Replaces an existing file or link, but not a directory. */
async function clear(target: string): Promise<void> {
  await unlink(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return
    if (error.code !== 'EISDIR') throw error
    throw new AgentPodError({
      code: 'conflict',
      reason: 'copy.in_the_way',
      message: `a directory is in the way: ${target}`,
      hint: 'move it, or copy to another path',
    })
  })
}

export async function makeParents(root: string, path: string): Promise<boolean> {
  let at = root
  for (const part of path.split('/').filter((name) => name !== '.' && name !== '')) {
    at = join(at, part)
    const info = await lstat(at).catch(() => undefined)
    if (!info) await mkdir(at)
    else if (!info.isDirectory()) return false
  }
  return true
}

export function safePath(name: string): string | undefined {
  if (
    name === '' ||
    name.startsWith('/') ||
    name.includes('\0') ||
    Buffer.byteLength(name) > LONGEST_NAME_BYTES
  )
    return undefined
  const path = normalize(name).replace(/\/$/, '')
  return path === '..' || path.startsWith('../') ? undefined : path
}

/**
 * SECURITY: `..` is allowed only at the front, where it leaves directories that we created. After a name it
 * may leave through another link: with `here -> .`, the link `up -> here/..` looks like `.` but is the
 * directory above (FS-06).
 */
export function staysInside(path: string, link: string): boolean {
  const parts = link.split('/').filter((part) => part !== '' && part !== '.')
  const firstName = parts.findIndex((part) => part !== '..')
  return (
    link !== '' &&
    !link.startsWith('/') &&
    !link.includes('\0') &&
    (firstName < 0 || !parts.slice(firstName).includes('..')) &&
    safePath(join(dirname(path), link)) !== undefined
  )
}

/** A path that the sandbox could not pack: the reason, a line break, and the path. */
function leftOut(said: Buffer): Extracted['skipped'][number] {
  const [why = '', ...path] = said.toString('utf8').split('\n')
  return { path: path.join('\n'), why: replaceHidden(why).slice(0, LONGEST_REASON) }
}

async function nextEntry(
  source: Source,
  onLeftOut: (one: Extracted['skipped'][number]) => void = () => undefined,
): Promise<Entry | undefined> {
  const pax: Record<string, Buffer> = {}
  for (;;) {
    const block = await source.block()
    if (!block || block.every((byte) => byte === 0)) return undefined
    checkSum(block)
    const type = String.fromCharCode(block[156] ?? 0).replace('\0', '0')
    const size = number(block, 124, 12)
    if (type === 'x') {
      Object.assign(pax, parsePax(await source.small(size)))
      await source.skip(padding(size))
      continue
    }
    if (type === 'g') {
      const { [LEFT_OUT]: said } = parsePax(await source.small(size))
      await source.skip(padding(size))
      if (said) onLeftOut(leftOut(said))
      continue
    }
    const [prefix, name] = [field(block, 345, 155), field(block, 0, 100)]
    const path = pax['path'] ?? (prefix.length > 0 ? Buffer.concat([prefix, SLASH, name]) : name)
    const link = pax['linkpath'] ?? field(block, 157, 100)
    return {
      path: path.toString('utf8'),
      link: link.toString('utf8'),
      isNotText: !isUtf8(path) || !isUtf8(link),
      type: type === '7' ? '0' : type,
      size: type === '0' || type === '7' ? paxSize(pax['size']?.toString('latin1') ?? String(size)) : 0,
      mode: number(block, 100, 8),
    }
  }
}

function paxSize(text: string): number {
  const size = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(size)) throw malformed('a pax header with a broken size')
  return size
}

function parsePax(body: Buffer): Record<string, Buffer> {
  const records: Record<string, Buffer> = {}
  let at = 0
  while (at < body.length) {
    const space = body.indexOf(0x20, at)
    const length = Number(body.subarray(at, space).toString('latin1'))
    if (space < 0 || !Number.isInteger(length) || length <= space - at || at + length > body.length)
      throw malformed('a broken pax record')
    const record = body.subarray(space + 1, at + length - 1)
    const cut = record.indexOf('=')
    const key = record.subarray(0, Math.max(cut, 0)).toString('latin1')
    if (key === 'path' || key === 'linkpath' || key === 'size' || key === LEFT_OUT)
      records[key] = record.subarray(cut + 1)
    at += length
  }
  return records
}

function checkSum(block: Buffer): void {
  let sum = 8 * 32
  for (let i = 0; i < BLOCK; i++) if (i < 148 || i >= 156) sum += block[i] ?? 0
  if (sum !== number(block, 148, 8)) throw malformed('a header with a wrong sum')
}

function field(block: Buffer, at: number, length: number): Buffer {
  const bytes = block.subarray(at, at + length)
  const end = bytes.indexOf(0)
  return bytes.subarray(0, end < 0 ? length : end)
}

function number(block: Buffer, at: number, length: number): number {
  const digits = field(block, at, length).toString('latin1').trim()
  const value = digits === '' ? 0 : /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number.NaN
  if (!Number.isSafeInteger(value)) throw malformed('a header with a broken number')
  return value
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK
}

function malformed(what: string): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'archive.malformed',
    message: `the sandbox sent a broken archive: ${what}`,
  })
}

/** Reads a given number of bytes from chunks of any size. */
class Source {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(tar: AsyncIterable<Buffer>) {
    this.#chunks = tar[Symbol.asyncIterator]()
  }

  async block(): Promise<Buffer | undefined> {
    const pieces: Buffer[] = []
    for await (const piece of this.take(BLOCK, true)) pieces.push(piece)
    return pieces.length === 0 ? undefined : Buffer.concat(pieces)
  }

  async small(size: number): Promise<Buffer> {
    if (size > LONGEST_PAX_BYTES) throw malformed('a header that is too long')
    const pieces: Buffer[] = []
    for await (const piece of this.take(size)) pieces.push(piece)
    return Buffer.concat(pieces)
  }

  async skip(size: number): Promise<void> {
    for await (const _ of this.take(size)) {
      // Skipped.
    }
  }

  async *take(size: number, mayEnd = false): AsyncGenerator<Buffer> {
    let left = size
    while (left > 0) {
      if (this.#rest.length === 0) {
        const { value, done } = await this.#chunks.next()
        if (done) {
          if (mayEnd && left === size) return
          throw malformed('it ends early')
        }
        this.#rest = value
        continue
      }
      const piece = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(piece.length)
      left -= piece.length
      yield piece
    }
  }
}
