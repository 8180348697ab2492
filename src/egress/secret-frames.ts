/** WebSockets of a sandbox that has secrets: what goes out has no placeholder in it, what comes in has no value in it. */
import { Transform, type TransformCallback } from 'node:stream'
import { Masker } from '../secrets/masker.ts'
import { Scanner } from '../secrets/scanner.ts'
import type { Watch } from '../secrets/watch.ts'
import type { Spend } from './budget.ts'
import { Gather } from './gather.ts'
import { Misplaced, Overspent } from './secret-body.ts'
import {
  CONTINUATION,
  type FrameHead,
  isControl,
  LONGEST_HEAD,
  readFrameHead,
  serverFrame,
  unmask,
} from './websocket-frame.ts'

/** What is held of one frame at most; the rest of a longer one passes piece by piece. */
const MOST_HELD = 1024 * 1024

interface Piece {
  /** Where in the payload it lies. */
  readonly at: number
  readonly isLast: boolean
}

/** Cuts a stream into frames: each comes as its head and a payload that is whole, or a piece of one that is too long to hold. */
abstract class Frames extends Transform {
  readonly #spend: Spend | undefined
  readonly #payload = new Gather()
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
      if (this.#spend?.(chunk.length) === false) throw new Overspent()
      let rest: Buffer | undefined = chunk
      while (rest) rest = this.#step(rest)
      done()
    } catch (error) {
      done(error as Error)
    }
  }

  /** What is left after one piece; undefined where more bytes are needed. */
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
    const payload = isAtOnce ? part : this.#payload.take()
    const at = head.length - this.#left
    this.#left -= payload.length
    const isLast = this.#left === 0
    if (isLast) this.#frame = undefined
    this.frame(head, payload, { at, isLast })
    return rest.subarray(part.length)
  }
}

/**
 * SECURITY: SE-03. From the client. What it sends is passed on as it was written, once it was looked through. Data is one stream whatever
 * stands between its frames, and what stands there is another.
 */
export class FrameGuard extends Frames {
  readonly #data: Scanner
  readonly #control: Scanner

  constructor(placeholders: readonly string[] | Watch, spend?: Spend) {
    super(spend)
    this.#data = new Scanner(placeholders)
    this.#control = new Scanner(placeholders)
  }

  protected override frame(head: FrameHead, payload: Buffer, { at }: Piece): void {
    const plain = head.mask ? unmask(payload, head.mask, at) : payload
    const scanner = isControl(head) ? this.#control : this.#data
    if (scanner.push(plain)) throw new Misplaced()
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
 * SECURITY: SE-04. From the server. All frames of a message go through one masker, so that a value passes neither in the halves of two frames nor
 * across the end of a piece: what could be its beginning is kept for the next frame that is sent.
 */
export class FrameMask extends Frames {
  readonly #values: readonly string[] | Watch
  /** Of the message that has begun. */
  #masker: Masker | undefined
  /** What the next frame of it is called. */
  #opcode = CONTINUATION

  constructor(values: readonly string[] | Watch, spend?: Spend) {
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

  /** Endpoints differ in what they make of messages that run into each other, so there are none. */
  #begin({ opcode }: FrameHead): void {
    if ((opcode === CONTINUATION) !== (this.#masker !== undefined))
      throw new Error('a frame that does not belong where it stands')
    if (opcode === CONTINUATION) return
    this.#masker = new Masker(this.#values)
    this.#opcode = opcode
  }
}
