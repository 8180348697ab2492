/**
 * Caches downloaded packages outside of all sandboxes. SECURITY: a file enters the cache only as the response
 * of a server to the URL that it is stored under, and the policy decides about a request before the cache is
 * searched.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../telemetry/log.ts'
import { type Clock, systemClock } from '../../util/clock.ts'
import { spareBytes } from '../../util/file/disk-space.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { type Random, randomWord, systemRandom } from '../../util/random.ts'
import { HEAD_BYTES, LARGEST_BODY, readHead } from './cache-file.ts'
import { PackageReader } from './reader.ts'
import { type CacheableAnswer, PackageWriter } from './writer.ts'

export interface CacheLocation {
  /** Created when the first file is stored. */
  readonly directory: string
  readonly limitBytes: number
}

export interface PackageCacheOptions extends CacheLocation {
  readonly log: Log
  readonly clock?: Clock | undefined
  readonly random?: Random | undefined
}

interface CachedFile {
  readonly path: string
  readonly bytes: number
  readonly usedAt: number
}

const DRAFT = '.tmp-'
const NAME = /^[0-9a-f]{64}$/
const MOST_READ = 256
const MOST_WRITTEN = 64
const MOST_FILES = 200_000
/**
 * Files are removed until this share of the limit is left, so that the next file does not trigger it again.
 */
const KEPT_SHARE = 0.9
/** A disk that is slower than this is slower than the network. */
const FIND_MS = 2000
const TOUCH_EVERY_MS = 60 * 60_000
/** How long nothing is stored after a disk error. */
const SUSPEND_MS = 60_000
const LOOKED_AT_ONCE = 64

export class PackageCache {
  readonly #location: CacheLocation
  readonly #log: Log
  readonly #clock: Clock
  readonly #random: Random
  #swept: Promise<void> | undefined
  #read = 0
  #written = 0
  #suspendedUntil = 0
  /** Undefined until the directory is listed. May be too high until the next listing. */
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
    this.#location = { directory, limitBytes }
    this.#log = log
    this.#clock = clock
    this.#random = random
  }

  /** Removes unfinished files of earlier processes. Nothing is written before it is done. */
  sweep(): Promise<void> {
    this.#swept ??= this.#sweep()
    return this.#swept
  }

  /** The caller closes the reader. Undefined if the file is not cached, or not found in time. */
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

  /** Undefined if the response is not cached. Errors of the writer do not affect the download. */
  store(answer: CacheableAnswer): PackageWriter | undefined {
    const mostBytes = Math.min(answer.bytes ?? LARGEST_BODY, this.#location.limitBytes - HEAD_BYTES)
    const isSuspended = this.#clock.now() < this.#suspendedUntil
    if (this.#written >= MOST_WRITTEN || isSuspended || mostBytes < (answer.bytes ?? 1)) return undefined
    this.#written++
    const draft = join(this.#location.directory, `${DRAFT}${randomWord(this.#random, 20)}`)
    const writer = new PackageWriter({
      answer,
      mostBytes,
      clock: this.#clock,
      draft,
      path: this.#pathOf(answer.url),
      open: () => this.#openDraft(draft, mostBytes),
      onStored: (bytes) => this.#grew(bytes),
    })
    writer.on('error', (error) => this.#suspend(error))
    writer.once('close', () => this.#written--)
    return writer
  }

  #pathOf(url: string): string {
    return join(this.#location.directory, createHash('sha256').update(url).digest('hex'))
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
      // Not cached or not readable: the server is asked.
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
    this.#log.warn('removed a damaged package from the cache')
    await rm(path, { force: true }).catch(() => undefined)
  }

  async #openDraft(draft: string, bytes: number): Promise<FileHandle> {
    const { directory } = this.#location
    await this.sweep()
    makeDirectory(directory, 0o700)
    const { uid, mode } = await stat(directory)
    // SECURITY: a directory that other users can write to is not used.
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
      throw Object.assign(new Error('other users can write to the cache directory'), { code: 'EPERM' })
    if ((await spareBytes(directory)) < bytes + HEAD_BYTES) throw new Error('there is not enough disk space')
    const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
    return open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  }

  /**
   * The disk is full or fails: downloads continue without the cache. An error without a code is about one
   * file only.
   */
  #suspend(error: NodeJS.ErrnoException): void {
    if (error.code === undefined) return
    this.#suspendedUntil = this.#clock.now() + SUSPEND_MS
    this.#log.warn('package caching is suspended for a minute', { code: error.code })
  }

  #grew(bytes: number): void {
    this.#grown.bytes += bytes
    this.#grown.files++
    if (this.#room) return
    if (this.#used && !this.#isOver(this.#sum())) return
    this.#room = this.#makeRoom()
      .catch((error: NodeJS.ErrnoException) => this.#suspend(error))
      .finally(() => {
        this.#room = undefined
      })
  }

  #sum(): { bytes: number; files: number } {
    const { bytes = 0, files = 0 } = this.#used ?? {}
    return { bytes: bytes + this.#grown.bytes, files: files + this.#grown.files }
  }

  #isOver({ bytes, files }: { readonly bytes: number; readonly files: number }, share = 1): boolean {
    return bytes > this.#location.limitBytes * share || files > MOST_FILES * share
  }

  /**
   * Removes the least recently used files first. Files stored meanwhile are counted afterwards, at worst
   * twice.
   */
  async #makeRoom(): Promise<void> {
    do {
      this.#grown = { bytes: 0, files: 0 }
      const files = await this.#list()
      const used = { bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), files: files.length }
      if (this.#isOver(used)) {
        for (const { path, bytes } of files.sort((a, b) => a.usedAt - b.usedAt)) {
          if (!this.#isOver(used, KEPT_SHARE)) break
          await rm(path, { force: true })
          used.bytes -= bytes
          used.files--
        }
      }
      this.#used = used
    } while (this.#isOver(this.#sum()))
  }

  async #list(): Promise<CachedFile[]> {
    const files: CachedFile[] = []
    const look = async (path: string): Promise<void> => {
      // A file that was removed meanwhile takes no space.
      const found = await lstat(path).catch(() => undefined)
      if (found) files.push({ path, bytes: found.size, usedAt: found.mtimeMs })
    }
    let batch: Promise<void>[] = []
    for await (const { name } of await opendir(this.#location.directory)) {
      if (!NAME.test(name)) continue
      batch.push(look(join(this.#location.directory, name)))
      if (batch.length < LOOKED_AT_ONCE) continue
      await Promise.all(batch)
      batch = []
    }
    await Promise.all(batch)
    return files
  }

  async #sweep(): Promise<void> {
    const { directory } = this.#location
    try {
      for await (const { name } of await opendir(directory))
        if (name.startsWith(DRAFT)) await rm(join(directory, name), { force: true })
    } catch {
      // The directory does not exist yet.
    }
  }
}
