/** Opens our SQLite files: checked before use, only migrated forwards, one writer. */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { AgentPodError, asAgentPodError } from '../core/error.ts'
import { failpoint } from '../util/failpoint.ts'

export interface Migration {
  readonly version: number
  readonly sql: string
}

export interface OpenOptions {
  readonly path: string
  /** FULL if a lost commit would break a promise to a client, NORMAL if only a line would be missing. */
  readonly synchronous: 'FULL' | 'NORMAL'
  readonly migrations: readonly Migration[]
  /** What is lost with the file and what to do, for the error about a damaged file. */
  readonly ifLost?: string | undefined
}

const BUSY_TIMEOUT_MS = 5000

export function openDatabase(options: OpenOptions): DatabaseSync {
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(options.path, { timeout: BUSY_TIMEOUT_MS })
    db.exec('PRAGMA journal_mode = WAL')
    db.exec(`PRAGMA synchronous = ${options.synchronous}`)
    db.exec('PRAGMA foreign_keys = ON')
    const check = db.prepare('PRAGMA quick_check(1)').get() as { quick_check?: string } | undefined
    if (check?.quick_check !== 'ok') throw new Error(`quick_check: ${check?.quick_check}`)
  } catch (error) {
    db?.close()
    if (isDamage(error)) throw setAside(options, error)
    throw sqliteError(error, options.path)
  }
  migrate(db, options)
  return db
}

function migrate(db: DatabaseSync, options: OpenOptions): void {
  const row = db.prepare('PRAGMA user_version').get() as { user_version: number }
  const newest = options.migrations.at(-1)?.version ?? 0
  if (row.user_version > newest) {
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'store.newer',
      message: `${options.path} was written by a newer AgentPod (schema ${row.user_version}, this one knows ${newest})`,
      hint: 'use the newer version, or another AGENTPOD_HOME',
    })
  }
  for (const migration of options.migrations) {
    if (migration.version <= row.user_version) continue
    transaction(db, () => {
      db.exec(migration.sql)
      failpoint('migration.applied')
      db.exec(`PRAGMA user_version = ${migration.version}`)
    })
  }
}

export function transaction<T>(db: DatabaseSync, work: () => T): T {
  db.exec('BEGIN IMMEDIATE')
  try {
    const result = work()
    db.exec('COMMIT')
    return result
  } catch (error) {
    // A failed COMMIT (disk full) may have rolled back on its own.
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

/**
 * Commits without waiting for the disk. The write survives the end of this process. After a power cut it may
 * be lost, unless a later commit was synced.
 */
export function withoutSync(db: DatabaseSync, work: () => unknown): void {
  db.exec('PRAGMA synchronous = NORMAL')
  try {
    work()
  } finally {
    db.exec('PRAGMA synchronous = FULL')
  }
}

/** Translates errors of SQLite. A full disk and a held lock are reported to the caller; they are no bug. */
export function sqliteError(error: unknown, what: string): AgentPodError {
  const number = (error as { errcode?: number }).errcode ?? 0
  const fields = { message: `${what}: ${error instanceof Error ? error.message : error}`, cause: error }
  switch (number & 0xff) {
    case 13:
      return new AgentPodError({
        code: 'resource_exhausted',
        reason: 'disk.full',
        hint: 'free some disk space and try again',
        ...fields,
      })
    case 5:
    case 6:
      return new AgentPodError({
        code: 'unavailable',
        reason: 'store.locked',
        hint: 'another process uses the database',
        ...fields,
      })
    case 10:
    case 14:
    case 8:
      return new AgentPodError({
        code: 'unavailable',
        reason: 'store.io',
        hint: 'check the state directory and its disk',
        ...fields,
      })
    default:
      return asAgentPodError(error)
  }
}

function isDamage(error: unknown): boolean {
  const number = ((error as { errcode?: number }).errcode ?? 0) & 0xff
  return number === 11 || number === 26 || (error instanceof Error && error.message.startsWith('quick_check'))
}

function setAside({ path, ifLost }: OpenOptions, cause: unknown): AgentPodError {
  let aside = `${path}.damaged`
  for (let n = 2; existsSync(aside); n++) aside = `${path}.damaged-${n}`
  renameSync(path, aside)
  rmSync(`${path}-wal`, { force: true })
  rmSync(`${path}-shm`, { force: true })
  return new AgentPodError({
    code: 'data_loss',
    reason: 'store.damaged',
    message: `${path} is damaged; it was moved to ${aside}`,
    hint: ifLost ?? 'start the server again; it creates a new one',
    cause,
  })
}
