/** Bodies on their way: out, a placeholder stops them before its first byte has passed; in, values are covered. */
import { Transform, type TransformCallback } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { Masker } from '../secrets/masker.ts'
import { Scanner } from '../secrets/scanner.ts'

/** Thrown into a body that may not go on. */
export class Misplaced extends Error {}

/** SECURITY: SE-03. What is packed is unpacked beside, and looked through there. */
export class BodyGuard extends Transform {
  readonly #placeholders: readonly string[]
  readonly #masker: Masker
  readonly #scanner: Scanner
  readonly #unpacked: Transform | undefined
  #isFound = false

  constructor(placeholders: readonly string[], codings: readonly string[]) {
    super()
    this.#placeholders = placeholders
    this.#masker = new Masker(placeholders)
    this.#scanner = new Scanner(placeholders)
    this.#unpacked = this.#unpack(codings)
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const safe = this.#masker.push(chunk)
    if (this.#masker.hits > 0 || this.#scanner.push(chunk) || this.#isFound) return void done(new Misplaced())
    if (!this.#unpacked) return void done(null, safe)
    // The verdict over what is packed comes before the bytes go on.
    this.#unpacked.write(chunk, () => done(this.#isFound ? new Misplaced() : null, safe))
  }

  override _flush(done: TransformCallback): void {
    const finish = (): void => done(this.#isFound ? new Misplaced() : null, this.#masker.end())
    if (!this.#unpacked) return void finish()
    this.#unpacked.once('close', finish)
    this.#unpacked.end()
  }

  #unpack(codings: readonly string[]): Transform | undefined {
    const unpacked = unpackerOf(codings)
    if (!unpacked) return undefined
    const scanner = new Scanner(this.#placeholders)
    let bytes = 0
    unpacked.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MOST_UNPACKED || scanner.push(chunk)) this.#isFound = true
    })
    // What cannot be unpacked has no meaning that a server could find in it.
    unpacked.on('error', () => unpacked.destroy())
    return unpacked
  }
}

/** A body that unpacks to more than this is not looked through to its end, and does not pass. */
const MOST_UNPACKED = 1024 * 1024 * 1024

const UNPACKERS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** One coding; a stack of them is seldom and is treated as unknown. */
export function unpackerOf(codings: readonly string[]): Transform | undefined {
  const [coding, ...more] = codings.filter((one) => one !== 'identity')
  return coding === undefined || more.length > 0 ? undefined : UNPACKERS[coding]?.()
}

export function isReadable(codings: readonly string[]): boolean {
  const real = codings.filter((one) => one !== 'identity')
  return real.length === 0 || (real.length === 1 && UNPACKERS[real[0] ?? ''] !== undefined)
}

/** SECURITY: SE-04. Covers values and their encodings, also across the borders of chunks. What is packed comes out unpacked. */
export class BodyMask extends Transform {
  readonly #masker: Masker
  readonly #unpacker: Transform | undefined

  constructor(values: readonly string[], codings: readonly string[]) {
    super()
    this.#masker = new Masker(values)
    this.#unpacker = unpackerOf(codings)
    this.#unpacker?.on('data', (chunk: Buffer) => this.#pass(chunk))
    this.#unpacker?.on('error', (error) => this.destroy(error))
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#unpacker) return void this.#unpacker.write(chunk, (error) => done(error))
    this.#pass(chunk)
    done()
  }

  override _flush(done: TransformCallback): void {
    const finish = (): void => done(null, this.#masker.end())
    if (!this.#unpacker) return void finish()
    this.#unpacker.once('end', finish)
    this.#unpacker.end()
  }

  override _read(size: number): void {
    this.#unpacker?.resume()
    super._read(size)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#unpacker?.destroy()
    super._destroy(error, done)
  }

  #pass(chunk: Buffer): void {
    const bytes = this.#masker.push(chunk)
    if (bytes.length > 0 && !this.push(bytes)) this.#unpacker?.pause()
  }
}
