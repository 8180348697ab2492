/** Writes tar archives whose names are short and ours. */

export const BLOCK = 512

export interface TarFile {
  /** Relative to the directory where the archive is unpacked. */
  readonly path: string
  readonly mode: number
  readonly uid?: number
  readonly gid?: number
  /** Unix seconds. */
  readonly time?: number
  /** Undefined for a directory. */
  readonly content?: Buffer | undefined
}

export function packTar(files: readonly TarFile[]): Buffer {
  return Buffer.concat([...files.flatMap(entryOf), tarEnd()])
}

export function tarEnd(): Buffer {
  return Buffer.alloc(2 * BLOCK)
}

function entryOf(file: TarFile): Buffer[] {
  const { content } = file
  if (content === undefined) return [tarHeader({ ...file, path: `${file.path}/`, size: 0, type: '5' })]
  return [tarHeader({ ...file, size: content.length, type: '0' }), content, padding(content.length)]
}

export function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)
}

/**
 * A header of 512 bytes. Paths are ours and short; sizes above 8 GiB are written in base 256, like GNU tar.
 */
export function tarHeader(entry: {
  readonly path: string
  readonly mode: number
  readonly uid?: number
  readonly gid?: number
  readonly size: number
  readonly type: '0' | '5'
  /** Unix seconds. */
  readonly time?: number
}): Buffer {
  if (Buffer.byteLength(entry.path) > 100) throw new Error(`${entry.path} is too long for a tar header`)
  const block = Buffer.alloc(BLOCK)
  block.write(entry.path, 0)
  block.write(`${octal(entry.mode, 7)}\0`, 100)
  block.write(`${octal(entry.uid ?? 0, 7)}\0`, 108)
  block.write(`${octal(entry.gid ?? 0, 7)}\0`, 116)
  writeSize(block, entry.size)
  block.write(`${octal(entry.time ?? 0, 11)}\0`, 136)
  block.write(' '.repeat(8), 148)
  block.write(entry.type, 156)
  block.write('ustar\u000000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)}\0 `, 148)
  return block
}

function writeSize(block: Buffer, size: number): void {
  if (size <= 0o77777777777) {
    block.write(`${octal(size, 11)}\0`, 124)
    return
  }
  block.writeUInt8(0x80, 124)
  block.writeBigUInt64BE(BigInt(size), 128)
}

function octal(value: number, width: number): string {
  return value.toString(8).padStart(width, '0')
}
