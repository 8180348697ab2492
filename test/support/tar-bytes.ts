/** Tar archives with entries that no honest program writes. */
import { createHash } from 'node:crypto'

export interface TarEntry {
  readonly name: string
  readonly type?: 'file' | 'hardlink' | 'symlink' | 'char' | 'block' | 'directory' | 'fifo'
  readonly content?: string | Buffer
  readonly target?: string
  readonly mode?: number
  readonly uid?: number
  readonly device?: readonly [number, number]
  /** A size that the header claims and the archive does not have. */
  readonly claimedSize?: number
}

const TYPES = { file: '0', hardlink: '1', symlink: '2', char: '3', block: '4', directory: '5', fifo: '6' }
const BLOCK = 512

export function tarOf(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(entryBlocks), Buffer.alloc(2 * BLOCK)])
}

export function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function entryBlocks(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.content ?? '')
  const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)
  return [header(entry, entry.claimedSize ?? content.length), content, padding]
}

function header(entry: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(BLOCK)
  const type = entry.type ?? 'file'
  block.write(entry.name, 0, 100)
  block.write(octal(entry.mode ?? (type === 'directory' ? 0o755 : 0o644), 7), 100)
  block.write(octal(entry.uid ?? 0, 7), 108)
  block.write(octal(entry.uid ?? 0, 7), 116)
  block.write(octal(size, 11), 124)
  block.write(octal(0, 11), 136)
  block.write(' '.repeat(8), 148)
  block.write(TYPES[type], 156)
  block.write(entry.target ?? '', 157, 100)
  block.write('ustar\u000000', 257)
  const [major, minor] = entry.device ?? [0, 0]
  block.write(octal(major, 7), 329)
  block.write(octal(minor, 7), 337)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)}\0 `, 148)
  return block
}

function octal(value: number, width: number): string {
  return value.toString(8).padStart(width, '0')
}
