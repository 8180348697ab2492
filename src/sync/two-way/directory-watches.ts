/**
 * Watches exactly the directories of a project. Node's recursive watch would also watch every installed or
 * built file.
 */
import { type FSWatcher, watch } from 'node:fs'
import { join } from 'node:path'
import type { ChangeNotice } from './side.ts'

const MOST_DIRECTORIES = 16_384

export class DirectoryWatches implements Disposable {
  readonly #root: string
  readonly #tell: (news: ChangeNotice) => void
  readonly #watches = new Map<string, FSWatcher>()
  #isComplete = false

  constructor(root: string, tell: (news: ChangeNotice) => void) {
    this.#root = root
    this.#tell = tell
  }

  /** Whether every directory is watched. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  /** Watches exactly these directories from now on; returns whether some were not watched before. */
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

  /** False if the system allows no more watches. A directory that no longer exists needs none. */
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
