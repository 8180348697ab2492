/**
 * Decompresses a copy of a body while the original is forwarded. Bytes after the end of the compressed data
 * are reported, never ignored.
 */
import type { Transform } from 'node:stream'
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib'

type Decompressor = Transform & { readonly bytesWritten: number }

/** Decompressors by Content-Encoding. `deflate` has two, of which only one fits a given body. */
const DECOMPRESSORS: Readonly<Record<string, readonly (() => Decompressor)[]>> = {
  gzip: [createGunzip],
  'x-gzip': [createGunzip],
  // The standard means the zlib format; many servers and clients write raw deflate, and read both.
  deflate: [createInflate, createInflateRaw],
  br: [createBrotliDecompress],
  zstd: [createZstdDecompress],
}
const ZLIB_METHOD = 8

/** The single coding of a body. Several codings are rare and are treated as unknown. */
export function codingOf(codings: readonly string[]): string | undefined {
  const [coding, ...more] = codings.filter((one) => one !== 'identity')
  return more.length > 0 ? 'several' : coding
}

export function isDecompressible(codings: readonly string[]): boolean {
  const coding = codingOf(codings)
  return coding === undefined || Object.hasOwn(DECOMPRESSORS, coding)
}

/** Decompresses a stream in one format. */
export class Decompression {
  readonly #make: () => Decompressor
  readonly #onData: (chunk: Buffer) => void
  #stream: Decompressor | undefined
  /** Bytes written to the current stream. */
  #given = 0
  /** The data is not in this format, or is truncated. */
  isBroken = false
  /** Other bytes follow the compressed data, which are not searched. */
  isFollowed = false

  constructor(make: () => Decompressor, onData: (chunk: Buffer) => void) {
    this.#make = make
    this.#onData = onData
  }

  /** Calls `done` once, when the chunk is decompressed as far as possible. */
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

  /** Calls `done` once, when all output was delivered. An empty body is complete. */
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

  #open(): Decompressor {
    const stream = this.#make()
    this.#stream = stream
    this.#given = 0
    stream.on('data', this.#onData)
    stream.on('error', () => this.destroy())
    return stream
  }

  #close(stream: Decompressor, done: () => void): void {
    // The stream can still be paused and resumed until its remaining output is read.
    settle(
      stream,
      () => stream.end(),
      () => {
        this.#stream = undefined
        done()
      },
    )
  }

  /**
   * Some readers accept several zstd frames in one body, as Node does with gzip members. In other formats
   * nothing may follow, and padding would hide what comes next.
   */
  #follow(rest: Buffer, done: () => void): void {
    if (this.#make === createZstdDecompress) return void this.write(rest, done)
    this.isFollowed = true
    done()
  }
}

/** A stream that fails does not call back, it closes. */
function settle(stream: Decompressor, act: (settled: () => void) => void, done: () => void): void {
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

/** One decompression for each format that a server could read the coding as. */
export function everyDecompression(
  codings: readonly string[],
  onData: (at: number, chunk: Buffer) => void,
): Decompression[] {
  const makers = DECOMPRESSORS[codingOf(codings) ?? ''] ?? []
  return makers.map((make, at) => new Decompression(make, (chunk) => onData(at, chunk)))
}

/** The decompression that fits the first bytes of the body. */
export function decompressionFor(
  codings: readonly string[],
  first: Buffer,
  onData: (chunk: Buffer) => void,
): Decompression {
  const makers = DECOMPRESSORS[codingOf(codings) ?? ''] ?? []
  const [make = createGunzip, other = make] = makers
  return new Decompression(isZlib(first) ? make : other, onData)
}

/** RFC 1950, 2.2: the method, and a check over the first two bytes. */
function isZlib(first: Buffer): boolean {
  return ((first[0] ?? 0) & 0x0f) === ZLIB_METHOD && (first.length < 2 || first.readUInt16BE(0) % 31 === 0)
}
