/** Archives of files that steps are given: uploaded once, checked against their digest, gone when the step is built. */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError, invalid } from '../core/error.ts'
import type { Clock } from '../util/clock.ts'
import { makeDirectory } from '../util/make-directory.ts'
import { type Random, randomWord } from '../util/random.ts'

export const LARGEST_INPUT_BYTES = 1024 * 1024 * 1024
const KEPT_MS = 24 * 3_600_000
const DIGEST = /^[0-9a-f]{64}$/

export class InputFiles {
  readonly #directory: string
  readonly #clock: Clock
  readonly #random: Random

  constructor(o: { readonly directory: string; readonly clock: Clock; readonly random: Random }) {
    this.#directory = o.directory
    this.#clock = o.clock
    this.#random = o.random
  }

  has(digest: string): boolean {
    return existsSync(this.#path(digest))
  }

  open(digest: string): Readable {
    return createReadStream(this.#path(digest))
  }

  /** `data_loss` when the content is not what the digest says; nothing is kept of it then. */
  async put(digest: string, source: Readable): Promise<void> {
    if (!DIGEST.test(digest)) throw invalid('build.digest', 'a digest is 64 hexadecimal digits')
    makeDirectory(this.#directory, 0o700)
    const draft = join(this.#directory, `.tmp-${randomWord(this.#random, 12)}`)
    const sum = createHash('sha256')
    let size = 0
    const check = new Transform({
      transform(chunk: Buffer, _, done) {
        size += chunk.length
        sum.update(chunk)
        done(size > LARGEST_INPUT_BYTES ? tooLarge() : null, chunk)
      },
    })
    try {
      await pipeline(source, check, createWriteStream(draft, { mode: 0o600, flags: 'wx' }))
      if (sum.digest('hex') !== digest)
        throw new AgentPodError({
          code: 'data_loss',
          reason: 'build.digest',
          message: 'the files did not arrive as they were sent',
          hint: 'try again',
        })
      await rename(draft, this.#path(digest))
    } catch (error) {
      await rm(draft, { force: true })
      throw error
    }
  }

  remove(digest: string): void {
    rmSync(this.#path(digest), { force: true })
  }

  /** What nobody came for, and drafts of an earlier life. */
  sweep(): void {
    if (!existsSync(this.#directory)) return
    for (const name of readdirSync(this.#directory)) {
      const path = join(this.#directory, name)
      const isOld = this.#clock.now() - statSync(path).mtimeMs > KEPT_MS
      if (name.startsWith('.tmp-') || isOld) rmSync(path, { force: true })
    }
  }

  #path(digest: string): string {
    if (!DIGEST.test(digest)) throw invalid('build.digest', 'a digest is 64 hexadecimal digits')
    return join(this.#directory, `${digest}.tar`)
  }
}

function tooLarge(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'build.files_too_large',
    message: `the files of a step take more than ${LARGEST_INPUT_BYTES} bytes`,
    hint: 'name fewer of them in `inputs` of `[lifecycle] setup`',
  })
}
