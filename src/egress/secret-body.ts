/** Bodies on their way: out, a placeholder stops them before its first byte has passed; in, values are covered. */
import { Transform, type TransformCallback } from 'node:stream'
import { Masker } from '../secrets/masker.ts'
import { Scanner } from '../secrets/scanner.ts'
import { Watch } from '../secrets/watch.ts'
import type { Spend } from './budget.ts'
import { codingOf, everyUnpacking, type Unpacking, unpackingFor } from './unpack.ts'

/** Thrown into a body that may not go on. */
export class Misplaced extends Error {}
/** Thrown into a body that is not what its head says it is packed as, and could hold anything. */
export class Unreadable extends Error {}
/** Thrown into a body for which there are no bytes left. */
export class Overspent extends Error {}

/** A body that unpacks to more than this is not looked through to its end, and does not pass. */
const MOST_UNPACKED = 1024 * 1024 * 1024

/** SECURITY: SE-03. What is packed is unpacked beside, in every way that a server could, and looked through there. */
export class BodyGuard extends Transform {
  readonly #masker: Masker
  readonly #scanner: Scanner
  /** Of what goes on. */
  readonly #covered: Scanner
  readonly #unpackings: readonly Unpacking[]
  readonly #spend: Spend | undefined
  readonly #covers: boolean
  /** The last byte of what is packed waits for the verdict over the whole: a server has nothing to answer before. */
  #held = Buffer.alloc(0)
  #isFound = false

  /** `covers`: a placeholder that stands there plainly is covered, and the body goes on. */
  constructor(
    placeholders: readonly string[] | Watch,
    codings: readonly string[],
    spend?: Spend,
    o: { readonly covers?: boolean } = {},
  ) {
    super()
    this.#covers = o.covers === true
    const watch = Watch.of(placeholders)
    this.#masker = new Masker(watch)
    this.#scanner = new Scanner(watch)
    this.#covered = new Scanner(watch)
    this.#spend = spend
    const readings: { readonly scanner: Scanner; bytes: number }[] = []
    this.#unpackings = everyUnpacking(codings, (at, chunk) => {
      const reading = readings[at] ?? { scanner: new Scanner(watch), bytes: 0 }
      readings[at] = reading
      reading.bytes += chunk.length
      if (reading.bytes > MOST_UNPACKED || reading.scanner.push(chunk)) this.#isFound = true
    })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#spend?.(chunk.length) === false) return void done(new Overspent())
    const safe = this.#masker.push(chunk)
    if (this.#isStopped(chunk, safe)) return void done(new Misplaced())
    // The verdict over what is packed comes before the bytes go on.
    this.#each(
      (unpacking, next) => unpacking.write(chunk, next),
      () => done(this.#verdict(), this.#unpackings.length === 0 ? safe : this.#hold(safe)),
    )
  }

  /** Where plain ones are covered, another spelling still stops it: at once before the first that was covered, and behind it as far as it is passed on. */
  #isStopped(chunk: Buffer, safe: Buffer): boolean {
    const isSeen = this.#scanner.push(chunk)
    if (this.#isFound || (isSeen && !this.#covers)) return true
    const isPlain = this.#masker.hits > 0
    if (!this.#covers) return isPlain
    return (isSeen && !isPlain) || this.#covered.push(safe)
  }

  override _flush(done: TransformCallback): void {
    this.#each(
      (unpacking, next) => unpacking.end(next),
      () => {
        const rest = this.#masker.end()
        if (this.#covers && this.#covered.push(rest)) this.#isFound = true
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
    for (const unpacking of this.#unpackings) unpacking.destroy()
    super._destroy(error, done)
  }

  #each(act: (unpacking: Unpacking, next: () => void) => void, done: () => void): void {
    const [first, ...others] = this.#unpackings
    if (!first) return void done()
    let left = 1 + others.length
    const next = (): void => {
      if (--left === 0) done()
    }
    for (const unpacking of this.#unpackings) act(unpacking, next)
  }

  /** What nobody can read whole is not passed on: another reader may find more in it. */
  #verdict(): Error | null {
    if (this.#isFound) return new Misplaced()
    const isRead = this.#unpackings.some(({ isBroken, isFollowed }) => !isBroken && !isFollowed)
    return isRead || this.#unpackings.length === 0 ? null : new Unreadable()
  }
}

/** Looks at a body as the client gets it, beside its way. */
export interface Onlooker {
  push(chunk: Buffer): void
  /** It has come to its end, or was cut. Called once. */
  end(): void
}

/** SECURITY: SE-04. Covers values and their encodings, also across the borders of chunks. What is packed comes out unpacked. */
export class BodyMask extends Transform {
  readonly #masker: Masker
  readonly #codings: readonly string[]
  readonly #spend: Spend | undefined
  /** Made with the first byte: an answer to HEAD says how it is packed and has no body. */
  #unpacking: Unpacking | undefined
  readonly #onlooker: Onlooker | undefined

  constructor(
    values: readonly string[] | Watch,
    codings: readonly string[],
    spend?: Spend,
    onlooker?: Onlooker,
  ) {
    super()
    this.#masker = new Masker(values)
    this.#codings = codings
    this.#spend = spend
    this.#onlooker = onlooker
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#spend?.(chunk.length) === false) return void done(new Overspent())
    if (codingOf(this.#codings) === undefined) {
      this.#pass(chunk)
      return void done()
    }
    this.#unpacking ??= unpackingFor(this.#codings, chunk, (unpacked) => this.#pass(unpacked))
    this.#unpacking.write(chunk, () => done(this.#verdict()))
  }

  override _flush(done: TransformCallback): void {
    const finish = (): void => {
      const rest = this.#masker.end()
      this.#onlooker?.push(rest)
      done(this.#verdict(), rest)
    }
    if (this.#unpacking) this.#unpacking.end(finish)
    else finish()
  }

  override _read(size: number): void {
    this.#unpacking?.resume()
    super._read(size)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#unpacking?.destroy()
    this.#onlooker?.end()
    super._destroy(error, done)
  }

  #verdict(): Error | null {
    return this.#unpacking?.isBroken ? new Unreadable() : null
  }

  #pass(chunk: Buffer): void {
    const bytes = this.#masker.push(chunk)
    this.#onlooker?.push(bytes)
    if (bytes.length > 0 && !this.push(bytes)) this.#unpacking?.pause()
  }
}
