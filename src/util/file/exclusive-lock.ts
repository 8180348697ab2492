/**
 * A lock that at most one process holds. It uses SQLite's lock on an empty file, because Node has no flock;
 * the kernel releases it whenever the process dies.
 */
import { DatabaseSync } from 'node:sqlite'

export interface ExclusiveLock {
  release(): void
}

/** Throws if another process holds it. */
export function lockExclusively(path: string): ExclusiveLock {
  const db = new DatabaseSync(path, { timeout: 0 })
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    throw error
  }
  return { release: () => db.close() }
}
