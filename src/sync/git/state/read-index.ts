/**
 * Reads the names in an index, as git writes it (gitformat-index). It spares a process that prints them, and
 * a look at each file. Whether files changed is for git itself to say.
 */
import type { ObjectId } from '../plumbing/repository.ts'

export interface IndexLink {
  readonly path: Buffer
  readonly commit: ObjectId
}

export interface ReadIndex {
  /** In git's order, each path once, without links to commits. A name that is not UTF-8 has U+FFFD in it. */
  readonly paths: readonly string[]
  /** Those that git does not compare with the files: skip-worktree and assume-unchanged. */
  readonly uncompared: ReadonlySet<string>
  /** Links to commits: submodules. */
  readonly links: readonly IndexLink[]
}

const HEAD_BYTES = 12
const FIXED_BYTES = 62
const CHECKSUM_BYTES = 20
const LINK_MODE = 0o160000
const DIRECTORY_MODE = 0o040000
/** Extensions without which an index is not complete: a split index, and directories in place of files. */
const NEEDED = /^[^A-Z]/

/** Undefined if it is of a kind that is not read here: ask git. */
export function readIndex(data: Buffer): ReadIndex | undefined {
  if (data.length < HEAD_BYTES + CHECKSUM_BYTES || data.toString('latin1', 0, 4) !== 'DIRC') return undefined
  const version = data.readUInt32BE(4)
  const count = data.readUInt32BE(8)
  if (version < 2 || version > 4) return undefined
  const end = data.length - CHECKSUM_BYTES
  // There may be tens of thousands of names: parts of one string are much cheaper than buffers.
  const whole = data.toString('latin1', 0, end)
  const paths: string[] = []
  const uncompared = new Set<string>()
  const links: IndexLink[] = []
  let [name, last, at] = ['', '', HEAD_BYTES]
  for (let n = 0; n < count; n++) {
    if (at + FIXED_BYTES >= end) return undefined
    const mode = numberAt(data, at + 26)
    const flags = numberAt(data, at + 60)
    const isExtended = (flags & 0x4000) !== 0
    if (mode === DIRECTORY_MODE) return undefined
    let from = at + FIXED_BYTES + (isExtended ? 2 : 0)
    let kept = 0
    if (version === 4) {
      const dropped = readOffset(data, from)
      kept = name.length - dropped.value
      from = dropped.next
      if (kept < 0) return undefined
    }
    const zero = whole.indexOf('\0', from)
    if (zero < 0) return undefined
    name = kept === 0 ? whole.slice(from, zero) : name.slice(0, kept) + whole.slice(from, zero)
    if (mode === LINK_MODE)
      links.push({ path: Buffer.from(name, 'latin1'), commit: data.toString('hex', at + 40, at + 60) })
    // A conflict has up to three entries with one name.
    else if (name !== last) {
      const path = NOT_ASCII.test(name) ? Buffer.from(name, 'latin1').toString('utf8') : name
      paths.push(path)
      const isSkipped = isExtended && (numberAt(data, at + FIXED_BYTES) & 0x4000) !== 0
      if (isSkipped || (flags & 0x8000) !== 0) uncompared.add(path)
    }
    last = name
    at = version === 4 ? zero + 1 : at + ((zero - at + 8) & ~7)
  }
  return hasNeeded(data, at, end) ? undefined : { paths, uncompared, links }
}

const NOT_ASCII = /[^\0-\x7f]/

function numberAt(data: Buffer, at: number): number {
  return ((data[at] ?? 0) << 8) | (data[at + 1] ?? 0)
}

/** A number of variable length, as in a pack's offsets. */
function readOffset(data: Buffer, start: number): { readonly value: number; readonly next: number } {
  let at = start
  let byte = data[at++] ?? 0
  let value = byte & 0x7f
  while ((byte & 0x80) !== 0 && at < data.length) {
    byte = data[at++] ?? 0
    value = (value + 1) * 128 + (byte & 0x7f)
  }
  return { value, next: at }
}

/** Whether an extension changes what the entries mean, or the file is damaged. */
function hasNeeded(data: Buffer, start: number, end: number): boolean {
  let at = start
  while (at + 8 <= end) {
    if (NEEDED.test(data.toString('latin1', at, at + 4))) return true
    at += 8 + data.readUInt32BE(at + 4)
  }
  return at !== end
}
