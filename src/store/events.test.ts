import assert from 'node:assert/strict'
import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, test } from 'node:test'
import { openDatabase } from './database.ts'
import { EVENT_MIGRATIONS, type EventStore, eventStore } from './events.ts'

let db: DatabaseSync
let events: EventStore
beforeEach(() => {
  db = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  events = eventStore(db)
})
afterEach(() => db.close())

function append(sandboxId: string, at: number): number {
  return events.append({ at, sandboxId, type: 'sandbox.running', data: { at, text: 'ä\n' } }).seq
}

test('events of one sandbox are listed in order, without those of others', () => {
  const seqs = [append('one1', 3), append('two2', 2), append('one1', 1)]
  assert.deepEqual(events.of('one1', { after: 0, limit: 10 }), [
    { seq: seqs[0], at: 3, sandboxId: 'one1', type: 'sandbox.running', data: { at: 3, text: 'ä\n' } },
    { seq: seqs[2], at: 1, sandboxId: 'one1', type: 'sandbox.running', data: { at: 1, text: 'ä\n' } },
  ])
})

test('reading events page by page gives each event once', () => {
  for (let i = 0; i < 10; i++) append('one1', i)
  const seen: number[] = []
  let after = 0
  for (;;) {
    const page = events.of('one1', { after, limit: 3 })
    if (page.length === 0) break
    seen.push(...page.map(({ at }) => at))
    after = page.at(-1)?.seq ?? 0
  }
  assert.deepEqual(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
})

test('event numbers rise and are not reused after events are removed', () => {
  const first = append('one1', 1)
  db.exec('DELETE FROM events')
  assert.ok(append('one1', 2) > first)
})

test('a sandbox without events has an empty list', () => {
  assert.deepEqual(events.of('none', { after: 0, limit: 10 }), [])
})
