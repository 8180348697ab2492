import assert from 'node:assert/strict'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import { type Migration, openDatabase, sqliteError, transaction } from './database.ts'

const ONE: Migration = { version: 1, sql: 'CREATE TABLE a (x INTEGER NOT NULL) STRICT' }
const TWO: Migration = { version: 2, sql: 'ALTER TABLE a ADD COLUMN y TEXT' }
const BROKEN: Migration = { version: 2, sql: 'CREATE TABLE b (x INTEGER); CREATE TABLE a (x INTEGER)' }

let directory = ''
let path = ''
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-store-'))
  path = join(directory, 'state.db')
})
afterEach(() => rmSync(directory, { recursive: true }))

function open(...migrations: readonly Migration[]): DatabaseSync {
  return openDatabase({ path, synchronous: 'FULL', migrations })
}

function version(db: DatabaseSync): unknown {
  return db.prepare('PRAGMA user_version').get()?.['user_version']
}

function refused(code: ErrorCode, reason: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(isAgentPodError(error, code), String(error))
    assert.equal(error.reason, reason)
    return true
  }
}

describe('migrations', () => {
  test('migrations run once each, in order, and keep existing data', () => {
    const first = open(ONE)
    first.exec('INSERT INTO a (x) VALUES (7)')
    assert.equal(version(first), 1)
    first.close()
    for (let again = 0; again < 2; again++) {
      const second = open(ONE, TWO)
      assert.equal(version(second), 2)
      assert.deepEqual({ ...second.prepare('SELECT * FROM a').get() }, { x: 7, y: null })
      second.close()
    }
  })

  test('a failed migration leaves the version before it', () => {
    open(ONE).close()
    assert.throws(() => open(ONE, BROKEN))
    const db = open(ONE)
    assert.equal(version(db), 1)
    assert.equal(db.prepare("SELECT count(*) AS n FROM sqlite_master WHERE name = 'b'").get()?.['n'], 0)
    db.close()
  })

  test('STATE-11 a database of a newer version is refused, and the file is left as it is', () => {
    open(ONE, TWO).close()
    const before = readFileSync(path)
    assert.throws(() => open(ONE), refused('failed_precondition', 'store.newer'))
    assert.ok(readFileSync(path).equals(before))
    open(ONE, TWO).close()
  })
})

test('the database uses write-ahead logging', () => {
  const db = open(ONE)
  assert.equal(db.prepare('PRAGMA journal_mode').get()?.['journal_mode'], 'wal')
  assert.equal(db.prepare('PRAGMA synchronous').get()?.['synchronous'], 2)
  db.close()
})

describe('a damaged file', () => {
  const DAMAGES: readonly { name: string; damage: () => void }[] = [
    { name: 'no database at all', damage: () => writeFileSync(path, 'not a database at all'.repeat(100)) },
    {
      name: 'overwritten pages',
      damage: () => {
        const bytes = readFileSync(path)
        bytes.fill(0xff, 4096)
        writeFileSync(path, bytes)
      },
    },
    { name: 'cut off', damage: () => truncateSync(path, Math.floor(statSync(path).size / 2)) },
  ]
  for (const { name, damage } of DAMAGES) {
    test(`a damaged database is moved away and reported, and a new one can be created: ${name}`, () => {
      const db = open(ONE)
      transaction(db, () => {
        const insert = db.prepare('INSERT INTO a (x) VALUES (?)')
        for (let i = 0; i < 5000; i++) insert.run(i)
      })
      db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
      db.close()
      damage()
      const damaged = readFileSync(path)
      assert.throws(() => open(ONE), refused('data_loss', 'store.damaged'))
      assert.ok(readFileSync(`${path}.damaged`).equals(damaged))
      const fresh = open(ONE)
      assert.equal(fresh.prepare('SELECT count(*) AS n FROM a').get()?.['n'], 0)
      fresh.close()
    })
  }

  test('a damaged database does not replace an older damaged one', () => {
    for (const text of ['first', 'second', 'third']) {
      writeFileSync(path, text.repeat(1000))
      assert.throws(() => open(ONE), refused('data_loss', 'store.damaged'))
    }
    const kept = readdirSync(directory).filter((name) => name.includes('damaged'))
    assert.deepEqual(kept.sort(), ['state.db.damaged', 'state.db.damaged-2', 'state.db.damaged-3'])
    assert.ok(readFileSync(`${path}.damaged`, 'utf8').startsWith('first'))
    assert.ok(!existsSync(path))
  })
})

test('a directory in place of the database file is a disk error, not data loss', () => {
  assert.throws(
    () => openDatabase({ path: directory, synchronous: 'FULL', migrations: [ONE] }),
    refused('unavailable', 'store.io'),
  )
})

describe('transactions', () => {
  test('a transaction is undone as a whole if the work throws', () => {
    const db = open(ONE)
    assert.throws(
      () =>
        transaction(db, () => {
          db.exec('INSERT INTO a (x) VALUES (1)')
          throw new Error('half way')
        }),
      /half way/,
    )
    assert.equal(db.prepare('SELECT count(*) AS n FROM a').get()?.['n'], 0)
    assert.equal(
      transaction(db, () => 'after'),
      'after',
    )
    db.close()
  })

  test('the second of two writing connections gets an error about the lock', () => {
    const one = open(ONE)
    const two = new DatabaseSync(path, { timeout: 0 })
    one.exec('BEGIN IMMEDIATE')
    try {
      two.exec('BEGIN IMMEDIATE')
      assert.fail('two writers at once')
    } catch (error) {
      refused('unavailable', 'store.locked')(sqliteError(error, 'x'))
    } finally {
      one.exec('ROLLBACK')
      two.close()
      one.close()
    }
  })

  test('transactions on a full disk fail as such, change nothing, and work again with free space', () => {
    const db = open(ONE)
    db.exec('INSERT INTO a (x) VALUES (1)')
    const pages = Number(db.prepare('PRAGMA page_count').get()?.['page_count'])
    db.exec(`PRAGMA max_page_count = ${pages}`)
    const insertMany = (): void =>
      transaction(db, () => {
        const insert = db.prepare('INSERT INTO a (x) VALUES (?)')
        for (let i = 0; i < 5000; i++) insert.run(i)
      })
    try {
      insertMany()
      assert.fail('there was room')
    } catch (error) {
      refused('resource_exhausted', 'disk.full')(sqliteError(error, 'cannot save'))
    }
    assert.equal(db.prepare('SELECT count(*) AS n FROM a').get()?.['n'], 1)
    db.exec('PRAGMA max_page_count = 100000')
    insertMany()
    db.close()
  })
})

test('unknown database errors are internal', () => {
  assert.equal(sqliteError(new Error('odd'), 'x').code, 'internal')
  assert.equal(sqliteError(Object.assign(new Error('odd'), { errcode: 1 }), 'x').code, 'internal')
  assert.equal(sqliteError(Object.assign(new Error('io'), { errcode: 778 }), 'x').reason, 'store.io')
})
