/** WebSocket frames in a stream of bytes, as RFC 6455 writes them. */

export interface FrameHead {
  readonly isLast: boolean
  readonly opcode: number
  readonly mask: Buffer | undefined
  readonly length: number
  /** Bytes of the head itself. */
  readonly size: number
}

export const CONTINUATION = 0
export const CLOSE = 8
/** Bytes of a head with the longest length field and a mask. */
export const LONGEST_HEAD = 14
const LAST = 0x80
const RESERVED = 0x70
const MASKED = 0x80
const LONGEST_CONTROL = 125

/**
 * Undefined if more bytes are needed. Throws on a frame that no endpoint may send, and on extensions, because
 * none is negotiated.
 */
export function readFrameHead(bytes: Buffer): FrameHead | undefined {
  const [first, second] = bytes
  if (first === undefined || second === undefined) return undefined
  if ((first & RESERVED) !== 0) throw new Error('a WebSocket frame uses an extension that was not negotiated')
  const isMasked = (second & MASKED) !== 0
  const short = second & 0x7f
  if ((first & 0x0f) >= CLOSE && (short > LONGEST_CONTROL || (first & LAST) === 0))
    throw new Error('a WebSocket control frame is too long or fragmented')
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0
  const size = 2 + extra + (isMasked ? 4 : 0)
  if (bytes.length < size) return undefined
  const long = extra === 8 ? bytes.readBigUInt64BE(2) : BigInt(extra === 2 ? bytes.readUInt16BE(2) : short)
  if (long > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error('a WebSocket frame is too long')
  return {
    isLast: (first & LAST) !== 0,
    opcode: first & 0x0f,
    mask: isMasked ? Buffer.from(bytes.subarray(size - 4, size)) : undefined,
    length: Number(long),
    size,
  }
}

export function isControl({ opcode }: FrameHead): boolean {
  return opcode >= CLOSE
}

/** Masking is its own inverse. `at` is the offset of the bytes in the payload. */
export function unmask(bytes: Buffer, mask: Buffer, at = 0): Buffer {
  const plain = Buffer.allocUnsafe(bytes.length)
  for (let i = 0; i < bytes.length; i++) plain[i] = (bytes[i] ?? 0) ^ (mask[(at + i) & 3] ?? 0)
  return plain
}

/** A frame of a server, which is not masked. */
export function serverFrame(opcode: number, isLast: boolean, payload: Buffer): Buffer {
  const { length } = payload
  const extra = length < 126 ? 0 : length < 65_536 ? 2 : 8
  const head = Buffer.alloc(2 + extra)
  head[0] = (isLast ? LAST : 0) | opcode
  head[1] = extra === 0 ? length : extra === 2 ? 126 : 127
  if (extra === 2) head.writeUInt16BE(length, 2)
  if (extra === 8) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}
