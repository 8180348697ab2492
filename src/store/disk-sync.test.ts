import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { openDatabase } from './database.ts'
import { DiskSync } from './disk-sync.ts'

const MIGRATIONS = [{ version: 1, sql: 'CREATE TABLE t (n INTEGER)' }]

test('callers at the same time are all served, also those that come while the disk is written', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-sync-'))
  const path = join(directory, 'state.db')
  const db = openDatabase({ path, synchronous: 'FULL', migrations: MIGRATIONS })
  try {
    const disk = new DiskSync(db)
    const first = disk.synced()
    const rest = Array.from({ length: 20 }, async (_, n) => {
      await new Promise((resolve) => setTimeout(resolve, n % 3))
      await disk.synced()
    })
    await Promise.all([first, ...rest])
    rmSync(`${path}-wal`)
    await assert.rejects(disk.synced(), (error) => isAgentPodError(error) && error.reason === 'store.io')
  } finally {
    db.close()
    rmSync(directory, { recursive: true })
  }
})

test('a database in memory has nothing to sync', async () => {
  const db = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: MIGRATIONS })
  await new DiskSync(db).synced()
  db.close()
})
