/**
 * Frames of a Connect stream: one flag byte, four bytes of length (big-endian), then JSON. The last
 * frame has flag 2 and holds `{}` or an error.
 */
export interface Frame {
  readonly last: boolean
  readonly message: unknown
}

const HEADER_BYTES = 5
const FLAG_COMPRESSED = 1
const FLAG_END = 2
export const LONGEST_FRAME_BYTES = 16 * 1024 * 1024

export class FrameError extends Error {}

export function encodeFrame(message: unknown, last = false): Buffer {
  const body = Buffer.from(JSON.stringify(message))
  const frame = Buffer.allocUnsafe(HEADER_BYTES + body.length)
  frame[0] = last ? FLAG_END : 0
  frame.writeUInt32BE(body.length, 1)
  body.copy(frame, HEADER_BYTES)
  return frame
}

/** Splits chunks into frames as they arrive. Throws FrameError for malformed input. */
export class FrameReader {
  #pending: Buffer[] = []
  #size = 0

  /** True if the bytes so far end at the end of a frame. */
  get isEmpty(): boolean {
    return this.#size === 0
  }

  push(chunk: Buffer): Frame[] {
    this.#pending.push(chunk)
    this.#size += chunk.length
    const frames: Frame[] = []
    for (;;) {
      const frame = this.#next()
      if (frame === undefined) return frames
      frames.push(frame)
    }
  }

  #next(): Frame | undefined {
    if (this.#size < HEADER_BYTES) return undefined
    let data = this.#join()
    const length = data.readUInt32BE(1)
    if (length > LONGEST_FRAME_BYTES) throw new FrameError(`a frame of ${length} bytes is too long`)
    if (data.length < HEADER_BYTES + length) return undefined
    const flags = data[0] ?? 0
    if ((flags & ~FLAG_END) !== 0) {
      throw new FrameError(
        flags & FLAG_COMPRESSED ? 'compressed frames are not supported' : `unknown frame flags ${flags}`,
      )
    }
    const body = data.subarray(HEADER_BYTES, HEADER_BYTES + length)
    data = data.subarray(HEADER_BYTES + length)
    this.#pending = data.length > 0 ? [data] : []
    this.#size = data.length
    return { last: (flags & FLAG_END) !== 0, message: parse(body) }
  }

  /** The pending chunks as one buffer; joined only when they may contain a whole frame. */
  #join(): Buffer {
    const first = this.#pending[0]
    if (first === undefined) return Buffer.alloc(0)
    if (this.#pending.length === 1) return first
    if (first.length >= HEADER_BYTES && this.#size < HEADER_BYTES + first.readUInt32BE(1)) return first
    const joined = Buffer.concat(this.#pending)
    this.#pending = [joined]
    return joined
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new FrameError('a frame is not valid JSON')
  }
}
