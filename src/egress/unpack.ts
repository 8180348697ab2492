/** Bodies that are packed, unpacked beside their way. What stands behind the end of what can be unpacked is told and never passed over. */
import type { Transform } from 'node:stream'
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib'

type Unpacker = Transform & { readonly bytesWritten: number }

/** How a coding is unpacked: mostly there is one way, and of two only one fits a body. */
const UNPACKERS: Readonly<Record<string, readonly (() => Unpacker)[]>> = {
  gzip: [createGunzip],
  'x-gzip': [createGunzip],
  // The standard means zlib's format; many servers and clients write the bare one, and read both.
  deflate: [createInflate, createInflateRaw],
  br: [createBrotliDecompress],
  zstd: [createZstdDecompress],
}
const ZLIB_METHOD = 8

/** One coding; a stack of them is seldom and is treated as unknown. */
export function codingOf(codings: readonly string[]): string | undefined {
  const [coding, ...more] = codings.filter((one) => one !== 'identity')
  return more.length > 0 ? 'several' : coding
}

export function isReadable(codings: readonly string[]): boolean {
  const coding = codingOf(codings)
  return coding === undefined || Object.hasOwn(UNPACKERS, coding)
}

/** One way to unpack a stream. */
export class Unpacking {
  readonly #make: () => Unpacker
  readonly #onData: (chunk: Buffer) => void
  #stream: Unpacker | undefined
  /** Bytes that the stream at hand was given. */
  #given = 0
  /** It was no such thing, or is cut off. */
  isBroken = false
  /** Something else follows it, which is not looked into. */
  isFollowed = false

  constructor(make: () => Unpacker, onData: (chunk: Buffer) => void) {
    this.#make = make
    this.#onData = onData
  }

  /** Calls `done` once, when everything that can be read from the chunk has been. */
  write(chunk: Buffer, done: () => void): void {
    if (this.isBroken || this.isFollowed || chunk.length === 0) return void done()
    const stream = this.#stream ?? this.#open()
    this.#given += chunk.length
    settle(
      stream,
      (settled) => stream.write(chunk, settled),
      () => {
        const left = this.#given - stream.bytesWritten
        if (this.isBroken || left === 0) return done()
        const rest = chunk.subarray(chunk.length - left)
        this.#close(stream, () => this.#follow(rest, done))
      },
    )
  }

  /** Calls `done` once, when all that there is has been handed over. A body of no bytes is whole. */
  end(done: () => void): void {
    if (this.#stream && !this.isBroken) this.#close(this.#stream, done)
    else done()
  }

  pause(): void {
    this.#stream?.pause()
  }

  resume(): void {
    this.#stream?.resume()
  }

  destroy(): void {
    this.isBroken = true
    this.#stream?.destroy()
  }

  #open(): Unpacker {
    const stream = this.#make()
    this.#stream = stream
    this.#given = 0
    stream.on('data', this.#onData)
    stream.on('error', () => this.destroy())
    return stream
  }

  #close(stream: Unpacker, done: () => void): void {
    // It stays the one that is paused and resumed until all that it has left was read.
    settle(
      stream,
      () => stream.end(),
      () => {
        this.#stream = undefined
        done()
      },
    )
  }

  /** Several in one body are read as one by some, and gzip's are so by Node. Others do not follow each other, and padding hides what comes next. */
  #follow(rest: Buffer, done: () => void): void {
    if (this.#make === createZstdDecompress) return void this.write(rest, done)
    this.isFollowed = true
    done()
  }
}

/** A stream that breaks does not call back; it closes. */
function settle(stream: Unpacker, act: (settled: () => void) => void, done: () => void): void {
  const settled = (): void => {
    stream.off('close', settled)
    if (isSettled) return
    isSettled = true
    done()
  }
  let isSettled = stream.closed
  if (isSettled) return void done()
  stream.on('close', settled)
  act(settled)
}

/** Every way in which somebody could read the coding. */
export function everyUnpacking(
  codings: readonly string[],
  onData: (at: number, chunk: Buffer) => void,
): Unpacking[] {
  const makers = UNPACKERS[codingOf(codings) ?? ''] ?? []
  return makers.map((make, at) => new Unpacking(make, (chunk) => onData(at, chunk)))
}

/** The way that fits what the body begins with. */
export function unpackingFor(
  codings: readonly string[],
  first: Buffer,
  onData: (chunk: Buffer) => void,
): Unpacking {
  const makers = UNPACKERS[codingOf(codings) ?? ''] ?? []
  const [make = createGunzip, other = make] = makers
  return new Unpacking(isZlib(first) ? make : other, onData)
}

/** RFC 1950, 2.2: the method, and a check over the first two bytes. */
function isZlib(first: Buffer): boolean {
  return ((first[0] ?? 0) & 0x0f) === ZLIB_METHOD && (first.length < 2 || first.readUInt16BE(0) % 31 === 0)
}
