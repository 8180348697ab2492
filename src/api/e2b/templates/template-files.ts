/**
 * Archives that clients upload for COPY steps, under the hash that the client computed. Kept until others
 * need the space, so that an unchanged directory is uploaded once.
 */
import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { LARGEST_INPUT_BYTES } from '../../../build/input-files.ts'
import { AgentPodError, asAgentPodError, invalid } from '../../../core/error.ts'
import type { Clock } from '../../../util/clock.ts'
import { makeDirectory } from '../../../util/file/make-directory.ts'
import { type Random, randomWord } from '../../../util/random.ts'
import { sha256Hex } from '../../../util/sha256.ts'

/** SECURITY: CP-16. The limit for all archives of one owner; the oldest are removed first. */
const MOST_BYTES = 2 * LARGEST_INPUT_BYTES
const KEPT_MS = 7 * 24 * 3_600_000
const NAME = /^([0-9a-f]{16})-([0-9a-f]{64})-([0-9a-f]{64})\.tar$/

interface Stored {
  readonly file: string
  readonly owner: string
  readonly hash: string
  readonly digest: string
  readonly size: number
  readonly usedAt: number
}

export class TemplateFiles {
  readonly #directory: string
  readonly #clock: Clock
  readonly #random: Random

  constructor(o: { readonly directory: string; readonly clock: Clock; readonly random: Random }) {
    this.#directory = o.directory
    this.#clock = o.clock
    this.#random = o.random
  }

  /** The digest of the tar archive that the owner uploaded under a hash. SECURITY: owners share nothing. */
  digestOf(owner: string, hash: string): string | undefined {
    const found = this.#find(owner, ({ hash: own }) => own === hash)
    if (!found) return undefined
    const now = new Date(this.#clock.now())
    utimesSync(found.file, now, now)
    return found.digest
  }

  open(owner: string, digest: string): Readable | undefined {
    const found = this.#find(owner, (one) => one.digest === digest)
    return found && createReadStream(found.file)
  }

  /**
   * Stores a tar archive, compressed with gzip or not. SECURITY: CP-16. The size is limited after
   * decompression, so a small upload cannot fill the disk. The archive is not unpacked outside a sandbox.
   */
  async put(owner: string, hash: string, source: Readable): Promise<void> {
    makeDirectory(this.#directory, 0o700)
    const draft = join(this.#directory, `.tmp-${randomWord(this.#random, 12)}`)
    const sum = createHash('sha256')
    try {
      const { data, isGzip } = await begun(source)
      // Each stream is part of the pipeline, so that it ends when any of them does.
      await pipeline(
        isGzip ? [data, createGunzip(), limited(sum), target(draft)] : [data, limited(sum), target(draft)],
      )
      const file = join(this.#directory, `${ownerWord(owner)}-${hash}-${sum.digest('hex')}.tar`)
      // INVARIANT: nothing is awaited from here on, so of two uploads of one hash the later one stays.
      renameSync(draft, file)
      for (const one of this.#all())
        if (one.owner === ownerWord(owner) && one.hash === hash && one.file !== file)
          rmSync(one.file, { force: true })
      this.#makeRoom(owner)
    } catch (error) {
      await rm(draft, { force: true })
      const known = asAgentPodError(error)
      throw known.code === 'internal' ? malformed(error) : known
    }
  }

  /** Removes unfinished uploads of an earlier server, and archives that nobody used for a week. */
  sweep(): void {
    if (!existsSync(this.#directory)) return
    for (const name of readdirSync(this.#directory))
      if (name.startsWith('.tmp-')) rmSync(join(this.#directory, name), { force: true })
    for (const { file, usedAt } of this.#all())
      if (this.#clock.now() - usedAt > KEPT_MS) rmSync(file, { force: true })
  }

  #makeRoom(owner: string): void {
    const own = this.#all()
      .filter((one) => one.owner === ownerWord(owner))
      .sort((a, b) => b.usedAt - a.usedAt)
    let bytes = 0
    for (const { file, size } of own) {
      bytes += size
      if (bytes > MOST_BYTES) rmSync(file, { force: true })
    }
  }

  #find(owner: string, isWanted: (one: Stored) => boolean): Stored | undefined {
    return this.#all()
      .filter((one) => one.owner === ownerWord(owner) && isWanted(one))
      .sort((a, b) => b.usedAt - a.usedAt)[0]
  }

  #all(): Stored[] {
    if (!existsSync(this.#directory)) return []
    return readdirSync(this.#directory).flatMap((name) => {
      const [, owner, hash, digest] = NAME.exec(name) ?? []
      const file = join(this.#directory, name)
      const info = statSync(file, { throwIfNoEntry: false })
      if (!owner || !hash || !digest || !info) return []
      return [{ file, owner, hash, digest, size: info.size, usedAt: info.mtimeMs }]
    })
  }
}

function ownerWord(owner: string): string {
  return sha256Hex(owner).slice(0, 16)
}

function target(path: string): NodeJS.WritableStream {
  return createWriteStream(path, { mode: 0o600, flags: 'wx', flush: true })
}

/** Reads the first two bytes to tell gzip from a plain archive; the data still has them. */
async function begun(source: Readable): Promise<{ readonly data: Readable; readonly isGzip: boolean }> {
  const chunks = source.iterator({ destroyOnReturn: false })
  let first: Buffer = Buffer.alloc(0)
  while (first.length < 2) {
    const next = await chunks.next()
    if (next.done) break
    first = Buffer.concat([first, next.value as Buffer])
  }
  if (first.length === 0) throw invalid('template.files', 'the upload is empty')
  const rest = async function* (): AsyncGenerator<Buffer> {
    yield first
    for await (const chunk of chunks) yield chunk as Buffer
  }
  return {
    data: Readable.from(rest(), { objectMode: false }),
    isGzip: first[0] === 0x1f && first[1] === 0x8b,
  }
}

function limited(sum: ReturnType<typeof createHash>): Transform {
  let size = 0
  return new Transform({
    transform(chunk: Buffer, _, done) {
      size += chunk.length
      if (size > LARGEST_INPUT_BYTES) {
        done(
          new AgentPodError({
            code: 'resource_exhausted',
            reason: 'template.files_large',
            message: `the files of a step are larger than ${LARGEST_INPUT_BYTES} bytes`,
            hint: 'copy fewer files, or list them in .dockerignore',
          }),
        )
        return
      }
      sum.update(chunk)
      done(null, chunk)
    },
  })
}

function malformed(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'template.files',
    message: 'the upload is incomplete, or is no tar archive',
    cause,
  })
}
