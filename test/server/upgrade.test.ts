/** A state database of an earlier release is migrated completely, and a crash on the way loses nothing. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, test } from 'node:test'
import { parseSandboxId } from '../../src/core/id.ts'
import { openDatabase } from '../../src/store/database.ts'
import { keyStore } from '../../src/store/keys.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../src/store/sandboxes.ts'
import { snapshotStore } from '../../src/store/snapshots.ts'

const FIXTURE = readFileSync(join(import.meta.dirname, '../fixtures', 'state-v3.sql'), 'utf8')
let dir: string
let path: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'agentpod-upgrade-'))
  path = join(dir, 'state.db')
  const old = new DatabaseSync(path)
  old.exec(FIXTURE)
  old.close()
})
afterEach(() => rmSync(dir, { recursive: true }))

const open = (): DatabaseSync => openDatabase({ path, synchronous: 'FULL', migrations: STATE_MIGRATIONS })

function check(db: DatabaseSync): void {
  const store = sandboxStore(db)
  const running = store.get(parseSandboxId('aaaarunning00001'))
  assert.equal(running?.state, 'running')
  assert.equal(running.labels['team'], 'a')
  assert.equal(running.handle?.sandboxId, 'aaaarunning00001')
  // It was created to be destroyed at its end, and not to be resumed by calls.
  assert.deepEqual(running.spec.lifetime, {
    ttlMs: 3_600_000,
    idleMs: 0,
    whenOver: 'destroy',
    autoResume: false,
  })
  assert.equal(running.spec.resources.diskMib > 0, true)
  assert.equal(running.limits?.disk.level, 'none')
  assert.deepEqual([running.tip, running.forkedFrom, running.root], [undefined, undefined, undefined])
  assert.deepEqual(
    store.existing().map(({ id }) => id),
    ['aaaarunning00001', 'aaaacreating0001'],
  )
  assert.equal(store.requested('local', 'key-1')?.sandbox.id, 'aaaarunning00001')
  assert.equal(store.page({ limit: 10 }).length, 4)
  assert.equal(store.meta('owner'), 'ap-fixture')
  assert.equal(keyStore(db).all().length, 1)
  assert.deepEqual(snapshotStore(db).all(), [])
}

test('STATE-11 a database of schema 3 is migrated with everything in it', () => {
  const db = open()
  check(db)
  db.close()
  const again = open()
  check(again)
  again.close()
})

test('STATE-11 kill -9 during a migration leaves the old database, and the next start migrates it', () => {
  const script = `
    import { openDatabase } from ${JSON.stringify(join(import.meta.dirname, '../../src/store/database.ts'))}
    import { STATE_MIGRATIONS } from ${JSON.stringify(join(import.meta.dirname, '../../src/store/sandboxes.ts'))}
    import { armFailpoint } from ${JSON.stringify(join(import.meta.dirname, '../../src/util/failpoint.ts'))}
    armFailpoint('migration.applied=kill')
    openDatabase({ path: ${JSON.stringify(path)}, synchronous: 'FULL', migrations: STATE_MIGRATIONS })`
  const { signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  })
  assert.equal(signal, 'SIGKILL', stderr)
  const raw = new DatabaseSync(path)
  assert.equal((raw.prepare('PRAGMA user_version').get() as { user_version: number }).user_version, 3)
  raw.close()
  const db = open()
  check(db)
  db.close()
})
