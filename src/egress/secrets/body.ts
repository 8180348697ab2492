/**
 * Bodies of requests and responses. A placeholder stops an outgoing body before its first byte is sent;
 * values are masked in an incoming body.
 */
import { Transform, type TransformCallback } from 'node:stream'
import { Masker } from '../../secrets/masker.ts'
import { Scanner } from '../../secrets/scanner.ts'
import { SearchSet } from '../../secrets/search-set.ts'
import type { Spend } from '../decide/budget.ts'
import { codingOf, type Decompression, decompressionFor, everyDecompression } from './decompress.ts'

/** The body contains a placeholder. */
export class PlaceholderFound extends Error {}
/** The body is not compressed as its head says, so it could hide anything. */
export class UndecodableBody extends Error {}
/** The byte budget is used up. */
export class BudgetExceeded extends Error {}

/** A body that decompresses to more than this is refused. */
const MOST_DECOMPRESSED = 1024 * 1024 * 1024

/**
 * SECURITY: SE-03. A copy of a compressed body is decompressed in every way that a server could use, and
 * searched.
 */
export class BodyGuard extends Transform {
  readonly #masker: Masker
  readonly #scanner: Scanner
  /** Searches the masked output. */
  readonly #outputScanner: Scanner
  readonly #decompressions: readonly Decompression[]
  readonly #spend: Spend | undefined
  readonly #masksPlaceholders: boolean
  /**
   * The last byte of a compressed body is held until all of it was searched, so the server cannot answer
   * before.
   */
  #held = Buffer.alloc(0)
  #isFound = false

  /** `masksPlaceholders`: a placeholder in plain form is masked, and the body is sent. */
  constructor(
    placeholders: readonly string[] | SearchSet,
    codings: readonly string[],
    spend?: Spend,
    o: { readonly masksPlaceholders?: boolean } = {},
  ) {
    super()
    this.#masksPlaceholders = o.masksPlaceholders === true
    const set = SearchSet.of(placeholders)
    this.#masker = new Masker(set)
    this.#scanner = new Scanner(set)
    this.#outputScanner = new Scanner(set)
    this.#spend = spend
    const readings: { readonly scanner: Scanner; bytes: number }[] = []
    this.#decompressions = everyDecompression(codings, (at, chunk) => {
      const reading = readings[at] ?? { scanner: new Scanner(set), bytes: 0 }
      readings[at] = reading
      reading.bytes += chunk.length
      if (reading.bytes > MOST_DECOMPRESSED || reading.scanner.push(chunk)) this.#isFound = true
    })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#spend?.(chunk.length) === false) return void done(new BudgetExceeded())
    const safe = this.#masker.push(chunk)
    if (this.#isStopped(chunk, safe)) return void done(new PlaceholderFound())
    // A compressed chunk is searched before its bytes are sent.
    this.#each(
      (decompression, next) => decompression.write(chunk, next),
      () => done(this.#verdict(), this.#decompressions.length === 0 ? safe : this.#hold(safe)),
    )
  }

  /**
   * Where plain placeholders are masked, an encoded one still stops the body: in the input until the first
   * one is masked, and after that in the masked output.
   */
  #isStopped(chunk: Buffer, safe: Buffer): boolean {
    const isSeen = this.#scanner.push(chunk)
    if (this.#isFound || (isSeen && !this.#masksPlaceholders)) return true
    const isPlain = this.#masker.hits > 0
    if (!this.#masksPlaceholders) return isPlain
    return (isSeen && !isPlain) || this.#outputScanner.push(safe)
  }

  override _flush(done: TransformCallback): void {
    this.#each(
      (decompression, next) => decompression.end(next),
      () => {
        const rest = this.#masker.end()
        if (this.#masksPlaceholders && this.#outputScanner.push(rest)) this.#isFound = true
        done(this.#verdict(), Buffer.concat([this.#held, rest]))
      },
    )
  }

  #hold(safe: Buffer): Buffer {
    const bytes = Buffer.concat([this.#held, safe])
    this.#held = bytes.subarray(-1)
    return bytes.subarray(0, -1)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    for (const decompression of this.#decompressions) decompression.destroy()
    super._destroy(error, done)
  }

  #each(act: (decompression: Decompression, next: () => void) => void, done: () => void): void {
    const [first, ...others] = this.#decompressions
    if (!first) return void done()
    let left = 1 + others.length
    const next = (): void => {
      if (--left === 0) done()
    }
    for (const decompression of this.#decompressions) act(decompression, next)
  }

  /** A body that no decompressor reads to its end is refused: another decompressor may find more in it. */
  #verdict(): Error | null {
    if (this.#isFound) return new PlaceholderFound()
    const isDecoded = this.#decompressions.some(({ isBroken, isFollowed }) => !isBroken && !isFollowed)
    return isDecoded || this.#decompressions.length === 0 ? null : new UndecodableBody()
  }
}

/** Observes a body as the client receives it. */
export interface BodyObserver {
  push(chunk: Buffer): void
  /** The body has ended or was cut. Called once. */
  end(): void
}

/**
 * SECURITY: SE-04. Masks values and their encodings, across chunks too. A compressed body comes out
 * decompressed.
 */
export class BodyMask extends Transform {
  readonly #masker: Masker
  readonly #codings: readonly string[]
  readonly #spend: Spend | undefined
  /** Created with the first byte: a response to HEAD has a Content-Encoding and no body. */
  #decompression: Decompression | undefined
  readonly #observer: BodyObserver | undefined

  constructor(
    values: readonly string[] | SearchSet,
    codings: readonly string[],
    spend?: Spend,
    observer?: BodyObserver,
  ) {
    super()
    this.#masker = new Masker(values)
    this.#codings = codings
    this.#spend = spend
    this.#observer = observer
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#spend?.(chunk.length) === false) return void done(new BudgetExceeded())
    if (codingOf(this.#codings) === undefined) {
      this.#pass(chunk)
      return void done()
    }
    this.#decompression ??= decompressionFor(this.#codings, chunk, (plain) => this.#pass(plain))
    this.#decompression.write(chunk, () => done(this.#verdict()))
  }

  override _flush(done: TransformCallback): void {
    const finish = (): void => {
      const rest = this.#masker.end()
      this.#observer?.push(rest)
      done(this.#verdict(), rest)
    }
    if (this.#decompression) this.#decompression.end(finish)
    else finish()
  }

  override _read(size: number): void {
    this.#decompression?.resume()
    super._read(size)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#decompression?.destroy()
    this.#observer?.end()
    super._destroy(error, done)
  }

  #verdict(): Error | null {
    return this.#decompression?.isBroken ? new UndecodableBody() : null
  }

  #pass(chunk: Buffer): void {
    const bytes = this.#masker.push(chunk)
    this.#observer?.push(bytes)
    if (bytes.length > 0 && !this.push(bytes)) this.#decompression?.pause()
  }
}
