/**
 * Packages that were downloaded once, kept outside of every sandbox for whoever downloads them next. SECURITY: a file gets here as the answer of a server to
 * the URL that it is kept under, and in no other way; whether somebody may have it is decided before anybody looks here.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../util/clock.ts'
import { spareBytes } from '../util/disk-space.ts'
import { makeDirectory } from '../util/make-directory.ts'
import { type Random, randomWord, systemRandom } from '../util/random.ts'
import type { Log } from './log.ts'
import { HEAD_BYTES, LARGEST_BODY, readHead } from './package-file.ts'
import { PackageReader } from './package-reader.ts'
import { type Answer, PackageWriter } from './package-writer.ts'

export interface CachePlace {
  /** Made when something is kept for the first time. */
  readonly directory: string
  readonly limitBytes: number
}

export interface PackageCacheOptions extends CachePlace {
  readonly log: Log
  readonly clock?: Clock | undefined
  readonly random?: Random | undefined
}

interface Lying {
  readonly path: string
  readonly bytes: number
  readonly usedAt: number
}

const DRAFT = '.tmp-'
const NAME = /^[0-9a-f]{64}$/
const MOST_READ = 256
const MOST_WRITTEN = 64
const MOST_FILES = 200_000
/** What is left of the limit after room was made, so that it is not made again at once. */
const KEPT_SHARE = 0.9
/** A disk that takes longer than the network is no help. */
const FIND_MS = 2000
const TOUCH_EVERY_MS = 60 * 60_000
/** How long nothing is kept after the disk refused. */
const REST_MS = 60_000
const LOOKED_AT_ONCE = 64

export class PackageCache {
  readonly #place: CachePlace
  readonly #log: Log
  readonly #clock: Clock
  readonly #random: Random
  #swept: Promise<void> | undefined
  #read = 0
  #written = 0
  #restsUntil = 0
  /** Undefined until somebody has looked. May be more than there is, which the next look sets right. */
  #used: { bytes: number; files: number } | undefined
  #grown = { bytes: 0, files: 0 }
  #room: Promise<void> | undefined

  constructor({
    directory,
    limitBytes,
    log,
    clock = systemClock,
    random = systemRandom,
  }: PackageCacheOptions) {
    this.#place = { directory, limitBytes }
    this.#log = log
    this.#clock = clock
    this.#random = random
  }

  /** Removes what an earlier process left unfinished. Nothing is written before. */
  sweep(): Promise<void> {
    this.#swept ??= this.#sweep()
    return this.#swept
  }

  /** Whoever asks closes what is found. Undefined where there is none, or none in time. */
  async find(url: string): Promise<PackageReader | undefined> {
    if (this.#read >= MOST_READ) return undefined
    const late = Promise.withResolvers<undefined>()
    const cancel = this.#clock.after(FIND_MS, () => late.resolve(undefined))
    const looking = this.#look(url)
    const found = await Promise.race([looking, late.promise])
    cancel()
    if (!found) void looking.then((one) => one?.close())
    return found
  }

  /** Undefined where it is not kept. What is given back never fails anybody but itself. */
  keep(answer: Answer): PackageWriter | undefined {
    const mostBytes = Math.min(answer.bytes ?? LARGEST_BODY, this.#place.limitBytes - HEAD_BYTES)
    const isResting = this.#clock.now() < this.#restsUntil
    if (this.#written >= MOST_WRITTEN || isResting || mostBytes < (answer.bytes ?? 1)) return undefined
    this.#written++
    const draft = join(this.#place.directory, `${DRAFT}${randomWord(this.#random, 20)}`)
    const writer = new PackageWriter({
      answer,
      mostBytes,
      clock: this.#clock,
      draft,
      path: this.#pathOf(answer.url),
      open: () => this.#openDraft(draft, mostBytes),
      onKept: (bytes) => this.#grew(bytes),
    })
    writer.on('error', (error) => this.#rest(error))
    writer.once('close', () => this.#written--)
    return writer
  }

  #pathOf(url: string): string {
    return join(this.#place.directory, createHash('sha256').update(url).digest('hex'))
  }

  async #look(url: string): Promise<PackageReader | undefined> {
    const path = this.#pathOf(url)
    this.#read++
    let file: FileHandle | undefined
    try {
      file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
      const { size, mtimeMs } = await file.stat()
      const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
      const head = readHead(buffer.subarray(0, bytesRead))
      if (head?.url === url && size === HEAD_BYTES + head.bytes) {
        await this.#touch(file, mtimeMs)
        const onDamaged = (): void => void this.#remove(path)
        return new PackageReader({ file, head, onDamaged, onClosed: () => this.#read-- })
      }
      await this.#remove(path)
    } catch {
      // Not there, or not to be read: the server has it.
    }
    this.#read--
    await file?.close().catch(() => undefined)
    return undefined
  }

  async #touch(file: FileHandle, usedAt: number): Promise<void> {
    const now = this.#clock.now()
    if (now - usedAt < TOUCH_EVERY_MS) return
    await file.utimes(now / 1000, now / 1000).catch(() => undefined)
  }

  async #remove(path: string): Promise<void> {
    this.#log.warn('a kept package was damaged, and is removed')
    await rm(path, { force: true }).catch(() => undefined)
  }

  async #openDraft(draft: string, bytes: number): Promise<FileHandle> {
    const { directory } = this.#place
    await this.sweep()
    makeDirectory(directory, 0o700)
    const { uid, mode } = await stat(directory)
    // SECURITY: what others may write to is nobody's cache.
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
      throw Object.assign(new Error('the directory is not ours alone'), { code: 'EPERM' })
    if ((await spareBytes(directory)) < bytes + HEAD_BYTES) throw new Error('there is no room for it')
    const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
    return open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  }

  /** The disk is full, or broken, or not ours: downloads go on without it. What has no code is about one answer alone. */
  #rest(error: NodeJS.ErrnoException): void {
    if (error.code === undefined) return
    this.#restsUntil = this.#clock.now() + REST_MS
    this.#log.warn('packages are not kept for a minute', { code: error.code })
  }

  #grew(bytes: number): void {
    this.#grown.bytes += bytes
    this.#grown.files++
    if (this.#room) return
    if (this.#used && !this.#isOver(this.#sum())) return
    this.#room = this.#makeRoom()
      .catch((error: NodeJS.ErrnoException) => this.#rest(error))
      .finally(() => {
        this.#room = undefined
      })
  }

  #sum(): { bytes: number; files: number } {
    const { bytes = 0, files = 0 } = this.#used ?? {}
    return { bytes: bytes + this.#grown.bytes, files: files + this.#grown.files }
  }

  #isOver({ bytes, files }: { readonly bytes: number; readonly files: number }, share = 1): boolean {
    return bytes > this.#place.limitBytes * share || files > MOST_FILES * share
  }

  /** What was used least recently goes first. What comes while it looks is counted behind it, twice at worst. */
  async #makeRoom(): Promise<void> {
    do {
      this.#grown = { bytes: 0, files: 0 }
      const lying = await this.#list()
      const used = { bytes: lying.reduce((sum, { bytes }) => sum + bytes, 0), files: lying.length }
      if (this.#isOver(used)) {
        for (const { path, bytes } of lying.sort((a, b) => a.usedAt - b.usedAt)) {
          if (!this.#isOver(used, KEPT_SHARE)) break
          await rm(path, { force: true })
          used.bytes -= bytes
          used.files--
        }
      }
      this.#used = used
    } while (this.#isOver(this.#sum()))
  }

  async #list(): Promise<Lying[]> {
    const lying: Lying[] = []
    const look = async (path: string): Promise<void> => {
      // One that is gone meanwhile takes no room.
      const found = await lstat(path).catch(() => undefined)
      if (found) lying.push({ path, bytes: found.size, usedAt: found.mtimeMs })
    }
    let batch: Promise<void>[] = []
    for await (const { name } of await opendir(this.#place.directory)) {
      if (!NAME.test(name)) continue
      batch.push(look(join(this.#place.directory, name)))
      if (batch.length < LOOKED_AT_ONCE) continue
      await Promise.all(batch)
      batch = []
    }
    await Promise.all(batch)
    return lying
  }

  async #sweep(): Promise<void> {
    const { directory } = this.#place
    try {
      for await (const { name } of await opendir(directory))
        if (name.startsWith(DRAFT)) await rm(join(directory, name), { force: true })
    } catch {
      // There is no directory yet.
    }
  }
}
