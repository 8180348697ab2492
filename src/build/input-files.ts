/**
 * Archives of input files for steps: uploaded once, checked against their digest, removed when the step is
 * built.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError, invalid } from '../core/error.ts'
import type { Clock } from '../util/clock.ts'
import { makeDirectory } from '../util/file/make-directory.ts'
import { type Random, randomWord } from '../util/random.ts'

export const LARGEST_INPUT_BYTES = 1024 * 1024 * 1024
/** SECURITY: CP-16. The limit for all archives of one owner. */
const MOST_BYTES = 4 * LARGEST_INPUT_BYTES
const KEPT_MS = 24 * 3_600_000
const DIGEST = /^[0-9a-f]{64}$/

export interface InputFilesParts {
  readonly directory: string
  readonly clock: Clock
  readonly random: Random
  /** The limits for one archive, and for all archives of one owner. */
  readonly largestBytes?: number | undefined
  readonly mostBytes?: number | undefined
}

/**
 * SECURITY: archives are kept per owner. Knowing a digest does not give access to the files of another owner.
 */
export class InputFiles {
  readonly #parts: InputFilesParts

  constructor(parts: InputFilesParts) {
    this.#parts = parts
  }

  has(owner: string, digest: string): boolean {
    return existsSync(this.path(owner, digest))
  }

  /** The stream ends with `data_loss` if the stored bytes do not match the digest. */
  open(owner: string, digest: string): Readable {
    const check = checked(digest, Number.POSITIVE_INFINITY, lost)
    pipeline(createReadStream(this.path(owner, digest)), check).catch(() => undefined)
    return check
  }

  /** Throws `invalid_argument` if the content does not match the digest; nothing is stored then. */
  async put(owner: string, digest: string, source: Readable): Promise<void> {
    const path = this.path(owner, digest)
    const { directory, random, mostBytes = MOST_BYTES, largestBytes = LARGEST_INPUT_BYTES } = this.#parts
    makeDirectory(directory, 0o700)
    this.sweep()
    const left = mostBytes - this.#bytesOf(owner)
    if (left <= 0) throw full(mostBytes)
    const draft = join(directory, `.tmp-${randomWord(random, 12)}`)
    try {
      await pipeline(
        source,
        checked(digest, Math.min(left, largestBytes), mismatch),
        // Flushed, so that a power cut does not leave a name without its content.
        createWriteStream(draft, { mode: 0o600, flags: 'wx', flush: true }),
      )
      await rename(draft, path)
    } catch (error) {
      await rm(draft, { force: true })
      throw error
    }
  }

  remove(owner: string, digest: string): void {
    rmSync(this.path(owner, digest), { force: true })
  }

  /** Removes old archives; at start also unfinished uploads of an earlier server process. */
  sweep(isStart = false): void {
    const { directory, clock } = this.#parts
    for (const { name, mtimeMs } of this.#all()) {
      const isOld = clock.now() - mtimeMs > KEPT_MS
      if (isOld || (isStart && name.startsWith('.tmp-'))) rmSync(join(directory, name), { force: true })
    }
  }

  #bytesOf(owner: string): number {
    const own = this.#all().filter(({ name }) => name.startsWith(prefixOf(owner)))
    return own.reduce((sum, { size }) => sum + size, 0)
  }

  #all(): { readonly name: string; readonly size: number; readonly mtimeMs: number }[] {
    const { directory } = this.#parts
    if (!existsSync(directory)) return []
    return readdirSync(directory).flatMap((name) => {
      const info = statSync(join(directory, name), { throwIfNoEntry: false })
      return info ? [{ name, size: info.size, mtimeMs: info.mtimeMs }] : []
    })
  }

  /** Where an archive is stored. */
  path(owner: string, digest: string): string {
    if (!DIGEST.test(digest)) throw invalid('build.digest', 'a digest is 64 hexadecimal digits')
    return join(this.#parts.directory, `${prefixOf(owner)}${digest}.tar`)
  }
}

/** Hashed, because an owner's name must not become part of a path. */
function prefixOf(owner: string): string {
  return `${createHash('sha256').update(owner).digest('hex').slice(0, 16)}-`
}

/** Passes the bytes through, and fails at the end if the digest is wrong or there are too many bytes. */
function checked(digest: string, most: number, wrong: () => AgentPodError): Transform {
  const sum = createHash('sha256')
  let size = 0
  return new Transform({
    transform(chunk: Buffer, _, done) {
      size += chunk.length
      sum.update(chunk)
      if (size > most) done(tooLarge(most))
      else done(null, chunk)
    },
    flush(done) {
      done(sum.digest('hex') === digest ? null : wrong())
    },
  })
}

function mismatch(): AgentPodError {
  return invalid('build.digest', 'the files do not match the digest in their address', 'send them again')
}

function lost(): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'build.digest',
    message: 'the stored files do not match what was uploaded',
    hint: 'send them again',
  })
}

function tooLarge(most: number): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'build.files_too_large',
    message: `the files of a step are larger than ${most} bytes`,
    hint: 'list fewer files in `inputs` of `[lifecycle] setup`',
  })
}

function full(most: number): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'build.files_full',
    message: `files for build steps already use ${most} bytes`,
    hint: 'they are removed when their steps are built, or after a day',
  })
}
