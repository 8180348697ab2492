/** WebSockets of a host that has a secret: what goes out has no placeholder in it, what comes in has no value in it. */
import { Transform, type TransformCallback } from 'node:stream'
import { Masker } from '../secrets/masker.ts'
import { Scanner } from '../secrets/scanner.ts'
import { Misplaced } from './secret-body.ts'
import {
  CONTINUATION,
  type FrameHead,
  isControl,
  readFrameHead,
  serverFrame,
  unmask,
} from './websocket-frame.ts'

/** What is held of one message at most; the rest of a longer one passes piece by piece. */
const MOST_HELD = 1024 * 1024

/** Cuts a stream into frames: each comes as its head and a payload that is whole, or a piece of one that is too long to hold. */
abstract class Frames extends Transform {
  #rest: Buffer = Buffer.alloc(0)
  #frame: FrameHead | undefined
  #left = 0

  protected abstract frame(head: FrameHead, payload: Buffer, piece: { at: number; isLast: boolean }): void

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    try {
      while (this.#step()) {
        // Until there is no whole piece left.
      }
      done()
    } catch (error) {
      done(error as Error)
    }
  }

  #step(): boolean {
    if (!this.#frame) {
      const head = readFrameHead(this.#rest)
      if (!head) return false
      this.#frame = head
      this.#left = head.length
      this.#rest = this.#rest.subarray(head.size)
    }
    const head = this.#frame
    const isWhole = this.#rest.length >= this.#left
    if (!isWhole && this.#rest.length < MOST_HELD) return false
    const payload = this.#rest.subarray(0, this.#left)
    const at = head.length - this.#left
    this.#left -= payload.length
    this.#rest = this.#rest.subarray(payload.length)
    if (this.#left === 0) this.#frame = undefined
    this.frame(head, payload, { at, isLast: this.#left === 0 })
    return this.#left === 0
  }
}

/** SECURITY: SE-03. From the client. What it sends is passed on as it was written, once it was looked through. */
export class FrameGuard extends Frames {
  readonly #scanner: Scanner

  constructor(placeholders: readonly string[]) {
    super()
    this.#scanner = new Scanner(placeholders)
  }

  protected override frame(head: FrameHead, payload: Buffer, { at }: { at: number }): void {
    const plain = head.mask ? unmask(payload, head.mask, at) : payload
    if (this.#scanner.push(plain)) throw new Misplaced()
    if (at === 0) this.push(clientHead(head))
    this.push(payload)
  }
}

function clientHead({ isLast, opcode, mask, length }: FrameHead): Buffer {
  const head = serverFrame(opcode, isLast, Buffer.alloc(0)).subarray(0, 1)
  const size = length < 126 ? 0 : length < 65_536 ? 2 : 8
  const lengths = Buffer.alloc(1 + size)
  lengths[0] = (size === 0 ? length : size === 2 ? 126 : 127) | (mask ? 0x80 : 0)
  if (size === 2) lengths.writeUInt16BE(length, 1)
  if (size === 8) lengths.writeBigUInt64BE(BigInt(length), 1)
  return Buffer.concat([head, lengths, mask ?? Buffer.alloc(0)])
}

/**
 * SECURITY: SE-04. From the server. The parts of a message are put together before they are looked through, so that a value does not pass in
 * halves; a message too long to hold is looked through part by part.
 */
export class FrameMask extends Frames {
  readonly #values: readonly string[]
  #opcode = 0
  #parts: Buffer[] = []
  #held = 0

  constructor(values: readonly string[]) {
    super()
    this.#values = values
  }

  protected override frame(head: FrameHead, payload: Buffer, piece: { isLast: boolean }): void {
    if (isControl(head)) return void this.push(serverFrame(head.opcode, true, this.#mask(payload)))
    if (head.opcode !== CONTINUATION) this.#opcode = head.opcode
    this.#parts.push(payload)
    this.#held += payload.length
    const isOver = head.isLast && piece.isLast
    if (!isOver && this.#held < MOST_HELD) return
    this.push(serverFrame(this.#opcode, isOver, this.#mask(Buffer.concat(this.#parts))))
    this.#opcode = CONTINUATION
    this.#parts = []
    this.#held = 0
  }

  #mask(bytes: Buffer): Buffer {
    const masker = new Masker(this.#values)
    return Buffer.concat([masker.push(bytes), masker.end()])
  }
}
