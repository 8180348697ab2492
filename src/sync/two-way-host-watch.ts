/**
 * Watches the directories of a project on this machine, and no others: Node's own recursive watch would follow each file of everything
 * that was ever installed or built.
 */
import { type FSWatcher, watch } from 'node:fs'
import { join } from 'node:path'
import type { News } from './two-way-side.ts'

const MOST_DIRECTORIES = 16_384

export class DirectoryWatches implements Disposable {
  readonly #root: string
  readonly #tell: (news: News) => void
  readonly #watches = new Map<string, FSWatcher>()
  #isComplete = false

  constructor(root: string, tell: (news: News) => void) {
    this.#root = root
    this.#tell = tell
  }

  /** Whether every directory is watched. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  /** Watches these directories from now on; answers whether some were not watched before. */
  follow(directories: ReadonlySet<string>): boolean {
    for (const [path, watcher] of this.#watches) {
      if (directories.has(path)) continue
      watcher.close()
      this.#watches.delete(path)
    }
    const added = [...directories].filter((path) => !this.#watches.has(path))
    this.#isComplete = directories.size <= MOST_DIRECTORIES && added.every((path) => this.#add(path))
    if (!this.#isComplete) this.#close()
    return added.length > 0
  }

  [Symbol.dispose](): void {
    this.#close()
    this.#isComplete = false
  }

  /** False where the system has no room for more watches. A directory that is gone needs none. */
  #add(path: string): boolean {
    try {
      const watcher = watch(join(this.#root, path), { persistent: false }, (_, name) =>
        this.#tell(name === null ? 'all' : [path === '' ? name : `${path}/${name}`]),
      )
      watcher.on('error', () => this.#drop(path, watcher))
      this.#watches.set(path, watcher)
      return true
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOENT' || code === 'ENOTDIR' || code === 'EACCES'
    }
  }

  #drop(path: string, watcher: FSWatcher): void {
    watcher.close()
    if (this.#watches.get(path) === watcher) this.#watches.delete(path)
    this.#tell('all')
  }

  #close(): void {
    for (const watcher of this.#watches.values()) watcher.close()
    this.#watches.clear()
  }
}
