/** Watches that a client polls, on top of a guest that streams changes. They end with the sandbox. */
import { randomBytes } from 'node:crypto'
import type { FileChange } from '../../core/guest-files.ts'
import { asEnvdRefusal, EnvdRefusal } from './message.ts'

const MOST_WATCHERS = 64
/** A watcher that holds more unread changes is dropped. */
const MOST_HELD = 8192

interface Watcher {
  readonly left: AbortController
  held: FileChange[]
  error: EnvdRefusal | undefined
}

export class EnvdWatchers {
  readonly #ended: AbortSignal
  readonly #watchers = new Map<string, Watcher>()

  constructor(ended: AbortSignal) {
    this.#ended = ended
  }

  async create(open: (signal: AbortSignal) => Promise<AsyncIterable<FileChange>>): Promise<string> {
    if (this.#watchers.size >= MOST_WATCHERS) {
      throw new EnvdRefusal('resource_exhausted', `at most ${MOST_WATCHERS} watchers at once`)
    }
    const watcher: Watcher = { left: new AbortController(), held: [], error: undefined }
    const id = randomBytes(16).toString('hex')
    // Counted before it opens, or many concurrent calls would exceed the limit.
    this.#watchers.set(id, watcher)
    try {
      const changes = await open(AbortSignal.any([this.#ended, watcher.left.signal]))
      void collect(watcher, changes)
      return id
    } catch (error) {
      this.#watchers.delete(id)
      throw error
    }
  }

  /** The changes since the last call. */
  take(id: string): readonly FileChange[] {
    const watcher = this.#need(id)
    const { held, error } = watcher
    watcher.held = []
    if (held.length === 0 && error) throw error
    return held
  }

  remove(id: string): void {
    this.#need(id).left.abort()
    this.#watchers.delete(id)
  }

  #need(id: string): Watcher {
    const found = this.#watchers.get(id)
    if (found) return found
    throw new EnvdRefusal('not_found', `watcher ${JSON.stringify(id.slice(0, 64))} not found`)
  }
}

/** Never rejects: the next poll reports the error. */
async function collect(watcher: Watcher, changes: AsyncIterable<FileChange>): Promise<void> {
  try {
    for await (const change of changes) {
      if (watcher.held.push(change) <= MOST_HELD) continue
      throw new EnvdRefusal('data_loss', `more than ${MOST_HELD} events were not fetched`)
    }
    watcher.error = new EnvdRefusal('unavailable', 'the watch has ended')
  } catch (error) {
    watcher.error = asEnvdRefusal(error) ?? new EnvdRefusal('unavailable', 'the watch was cut')
    watcher.left.abort()
  }
}
