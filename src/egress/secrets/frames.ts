/**
 * WebSockets of a sandbox that has secrets: placeholders are refused on the way out, values masked on the way
 * in.
 */
import { Transform, type TransformCallback } from 'node:stream'
import { Masker } from '../../secrets/masker.ts'
import { Scanner } from '../../secrets/scanner.ts'
import type { SearchSet } from '../../secrets/search-set.ts'
import type { Spend } from '../decide/budget.ts'
import { BudgetExceeded, PlaceholderFound } from './body.ts'
import { GrowingBuffer } from './growing-buffer.ts'
import {
  CONTINUATION,
  type FrameHead,
  isControl,
  LONGEST_HEAD,
  readFrameHead,
  serverFrame,
  unmask,
} from './websocket-frame.ts'

/** Most bytes of one frame that are buffered; a longer frame passes in pieces. */
const MOST_HELD = 1024 * 1024

interface Piece {
  /** Offset in the payload. */
  readonly at: number
  readonly isLast: boolean
}

/** Splits a stream into frames: the head, and the whole payload or a piece of a long one. */
abstract class Frames extends Transform {
  readonly #spend: Spend | undefined
  readonly #payload = new GrowingBuffer()
  #head: Buffer = Buffer.alloc(0)
  #frame: FrameHead | undefined
  #left = 0

  constructor(spend: Spend | undefined) {
    super()
    this.#spend = spend
  }

  protected abstract frame(head: FrameHead, payload: Buffer, piece: Piece): void

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      if (this.#spend?.(chunk.length) === false) throw new BudgetExceeded()
      let rest: Buffer | undefined = chunk
      while (rest) rest = this.#step(rest)
      done()
    } catch (error) {
      done(error as Error)
    }
  }

  /** The bytes after one piece; undefined if more bytes are needed. */
  #step(bytes: Buffer): Buffer | undefined {
    let rest = bytes
    if (!this.#frame) {
      const begun = this.#head.length
      const start = begun === 0 ? rest : Buffer.concat([this.#head, rest.subarray(0, LONGEST_HEAD)])
      const head = readFrameHead(start)
      this.#head = head ? Buffer.alloc(0) : Buffer.from(start)
      if (!head) return undefined
      this.#frame = head
      this.#left = head.length
      rest = rest.subarray(head.size - begun)
    }
    const head = this.#frame
    const wanted = Math.min(this.#left, MOST_HELD) - this.#payload.length
    const part = rest.subarray(0, wanted)
    const isPiece = part.length === wanted
    const isAtOnce = isPiece && this.#payload.length === 0
    if (!isAtOnce) this.#payload.add(part)
    if (!isPiece) return undefined
    const payload = isAtOnce ? part : this.#payload.takeAll()
    const at = head.length - this.#left
    this.#left -= payload.length
    const isLast = this.#left === 0
    if (isLast) this.#frame = undefined
    this.frame(head, payload, { at, isLast })
    return rest.subarray(part.length)
  }
}

/**
 * SECURITY: SE-03. Frames of the client are searched and then sent unchanged. Data frames are searched as one
 * stream, control frames, which may stand between them, as another.
 */
export class FrameGuard extends Frames {
  readonly #data: Scanner
  readonly #control: Scanner

  constructor(placeholders: readonly string[] | SearchSet, spend?: Spend) {
    super(spend)
    this.#data = new Scanner(placeholders)
    this.#control = new Scanner(placeholders)
  }

  protected override frame(head: FrameHead, payload: Buffer, { at }: Piece): void {
    const plain = head.mask ? unmask(payload, head.mask, at) : payload
    const scanner = isControl(head) ? this.#control : this.#data
    if (scanner.push(plain)) throw new PlaceholderFound()
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
 * SECURITY: SE-04. Frames of the server. One masker handles all frames of a message, so a value that is split
 * between two frames or pieces is found: bytes that could begin a value are held back until the next frame.
 */
export class FrameMask extends Frames {
  readonly #values: readonly string[] | SearchSet
  /** Masks the current message. */
  #masker: Masker | undefined
  /** Opcode of the next frame of the message. */
  #opcode = CONTINUATION

  constructor(values: readonly string[] | SearchSet, spend?: Spend) {
    super(spend)
    this.#values = values
  }

  protected override frame(head: FrameHead, payload: Buffer, { at, isLast }: Piece): void {
    const bytes = head.mask ? unmask(payload, head.mask, at) : payload
    if (isControl(head)) {
      const masker = new Masker(this.#values)
      return void this.push(serverFrame(head.opcode, true, Buffer.concat([masker.push(bytes), masker.end()])))
    }
    if (at === 0) this.#begin(head)
    const masker = this.#masker
    if (!masker) return
    const safe = masker.push(bytes)
    const isOver = head.isLast && isLast
    if (!isOver && safe.length === 0) return
    this.push(serverFrame(this.#opcode, isOver, isOver ? Buffer.concat([safe, masker.end()]) : safe))
    this.#opcode = CONTINUATION
    if (isOver) this.#masker = undefined
  }

  /** Endpoints treat interleaved messages differently, so they are refused. */
  #begin({ opcode }: FrameHead): void {
    if ((opcode === CONTINUATION) !== (this.#masker !== undefined))
      throw new Error('a WebSocket frame is out of order')
    if (opcode === CONTINUATION) return
    this.#masker = new Masker(this.#values)
    this.#opcode = opcode
  }
}
