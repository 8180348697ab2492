/**
 * A lock that at most one process has. It is SQLite's own on an empty file: the kernel drops it when the process dies, however it
 * dies, and Node has no flock.
 */
import { DatabaseSync } from 'node:sqlite'

export interface ExclusiveLock {
  release(): void
}

/** Throws when another process has it. */
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
