/** Writes the committed transactions of a database to the disk, those of several callers at once. */
import { closeSync, fdatasync, openSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { AgentPodError } from '../core/error.ts'

const flush = promisify(fdatasync)

export class DiskSync {
  readonly #log: string | undefined
  #running: Promise<void> | undefined
  /** Begins when the running one has ended, because that one may miss the latest commit. */
  #next: Promise<void> | undefined

  constructor(db: DatabaseSync) {
    const path = db.location()
    this.#log = path === null ? undefined : `${path}-wal`
  }

  /** Returns when every commit made before the call would survive a power cut. Does not block the process. */
  async synced(): Promise<void> {
    this.#next ??= this.#after(this.#running)
    await this.#next
  }

  async #after(earlier: Promise<void> | undefined): Promise<void> {
    // The callers that wait for the earlier one get its error.
    await earlier?.catch(() => undefined)
    this.#running = this.#next
    this.#next = undefined
    await this.#sync()
  }

  async #sync(): Promise<void> {
    if (this.#log === undefined) return
    try {
      const log = openSync(this.#log, 'r')
      try {
        await flush(log)
      } finally {
        closeSync(log)
      }
    } catch (error) {
      throw new AgentPodError({
        code: 'unavailable',
        reason: 'store.io',
        message: `cannot write ${this.#log} to the disk: ${error instanceof Error ? error.message : error}`,
        hint: 'check the state directory and its disk',
        cause: error,
      })
    }
  }
}
