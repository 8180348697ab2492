import assert from 'node:assert/strict'
import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, test } from 'node:test'
import { DEFAULT_ENVIRONMENT } from '../core/environment.ts'
import { isAgentPodError } from '../core/error.ts'
import { parseSandboxId, parseSnapshotId } from '../core/id.ts'
import { STATES } from '../core/lifecycle.ts'
import { DEFAULT_NETWORK } from '../core/network.ts'
import { DEFAULT_RESOURCES } from '../core/resources.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { DEFAULT_LIFETIME } from '../core/spec.ts'
import { openDatabase } from './database.ts'
import { type SandboxStore, STATE_MIGRATIONS, sandboxStore } from './sandboxes.ts'

let db: DatabaseSync
let store: SandboxStore
beforeEach(() => {
  db = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  store = sandboxStore(db)
})
afterEach(() => db.close())

function sandbox(id: string, over: Partial<Sandbox> = {}): Sandbox {
  return {
    id: parseSandboxId(id),
    owner: 'local',
    name: undefined,
    labels: {},
    provider: 'fake',
    isolation: 'container',
    state: 'running',
    spec: {
      environment: DEFAULT_ENVIRONMENT,
      resources: DEFAULT_RESOURCES,
      lifetime: DEFAULT_LIFETIME,
      network: DEFAULT_NETWORK,
    },
    link: undefined,
    limits: undefined,
    handle: undefined,
    createdAt: 1000,
    startedAt: undefined,
    deadlineAt: 2000,
    endedAt: undefined,
    ending: undefined,
    root: undefined,
    tip: undefined,
    forkedFrom: undefined,
    pausedAt: undefined,
    savedBytes: undefined,
    ...over,
  }
}

const FULL = sandbox('full', {
  name: 'box',
  labels: { 'a/b': 'ä"\'\n' },
  state: 'failed',
  limits: {
    memory: { level: 'enforced' },
    swap: { level: 'none', reason: 'no swap' },
    cpus: { level: 'soft' },
    pids: { level: 'enforced' },
    files: { level: 'enforced' },
    disk: { level: 'soft' },
  },
  root: { kind: 'layers', layers: ['0'.repeat(64)] },
  tip: parseSnapshotId('snap0123456789abcdef'),
  forkedFrom: parseSandboxId('source'),
  handle: { sandboxId: parseSandboxId('full'), data: { socket: '/run/x', n: 1, deep: { a: [1] } } },
  startedAt: 0,
  endedAt: 1_900_000_000_123,
  ending: { code: 'unavailable', reason: 'sandbox.lost', message: 'it ended' },
})

test('a sandbox record is read back as stored, with all fields and with none', () => {
  for (const record of [FULL, sandbox('bare')]) {
    store.insert(record, undefined)
    assert.deepEqual(store.get(record.id), record)
  }
})

test('every sandbox state can be stored', () => {
  for (const state of STATES) {
    const id = `st${state}`
    store.insert(sandbox(id, { state }), undefined)
    assert.equal(store.get(parseSandboxId(id))?.state, state)
  }
})

test('an update of a sandbox record replaces everything but the request key', () => {
  const before = sandbox('full')
  store.insert(before, { key: 'k', digest: 'd' })
  store.update(FULL, before)
  assert.deepEqual(store.get(FULL.id), FULL)
  assert.deepEqual(store.requested('local', 'k'), { sandbox: FULL, digest: 'd' })
})

test('an unknown sandbox record is undefined', () => {
  assert.equal(store.get(parseSandboxId('none')), undefined)
  assert.equal(store.named('local', 'none'), undefined)
  assert.equal(store.requested('local', 'none'), undefined)
  assert.equal(store.meta('none'), undefined)
})

const taken = (reason: string) => (error: unknown) =>
  isAgentPodError(error, 'already_exists') && error.reason === reason

test('a name belongs to one existing sandbox, and is free again after its end', () => {
  const first = sandbox('one1', { name: 'box' })
  store.insert(first, undefined)
  assert.throws(() => store.insert(sandbox('two2', { name: 'box' }), undefined), taken('sandbox.name_taken'))
  store.update({ ...first, endedAt: 5 }, first)
  store.insert(sandbox('two2', { name: 'box' }), undefined)
  assert.equal(store.named('local', 'box')?.id, 'two2')
})

test('a sandbox id and a request key cannot be reused, even after the end', () => {
  store.insert(sandbox('one1', { endedAt: 5 }), { key: 'k', digest: 'd' })
  assert.throws(() => store.insert(sandbox('one1'), undefined), taken('sandbox.duplicate'))
  assert.throws(() => store.insert(sandbox('two2'), { key: 'k', digest: 'd' }), taken('sandbox.duplicate'))
})

test('existing sandboxes are listed oldest first, without ended ones', () => {
  store.insert(sandbox('late', { createdAt: 3 }), undefined)
  store.insert(sandbox('gone', { createdAt: 2, endedAt: 9 }), undefined)
  store.insert(sandbox('soon', { createdAt: 1 }), undefined)
  assert.deepEqual(
    store.existing().map(({ id }) => id),
    ['soon', 'late'],
  )
})

test('pages of sandboxes contain each once, newest first, also with equal times', () => {
  for (let i = 0; i < 25; i++) {
    store.insert(
      sandbox(`id${String(i).padStart(2, '0')}`, { createdAt: 100 + Math.floor(i / 10) }),
      undefined,
    )
  }
  const seen: string[] = []
  let before: { createdAt: number; id: string } | undefined
  for (;;) {
    const page = store.page({ before, limit: 4 })
    if (page.length === 0) break
    seen.push(...page.map(({ id }) => id))
    before = page.at(-1)
  }
  assert.deepEqual(seen, [...seen].sort().reverse())
  assert.equal(new Set(seen).size, 25)
})

test('hostile text in a sandbox record is only data', () => {
  const name = "x'; DROP TABLE sandboxes; --"
  store.insert(sandbox('evil', { labels: { [name]: name } }), { key: name, digest: name })
  assert.deepEqual(store.requested('local', name)?.sandbox.labels, { [name]: name })
})

test('a value of the state directory is stored and replaced', () => {
  store.setMeta('owner', 'a')
  store.setMeta('owner', 'b')
  assert.equal(store.meta('owner'), 'b')
})

test('a write of a sandbox record on a full disk reports it', () => {
  db.exec(`PRAGMA max_page_count = ${db.prepare('PRAGMA page_count').get()?.['page_count']}`)
  const large = sandbox('full', { labels: { a: 'x'.repeat(100_000) } })
  const isFull = (error: unknown): boolean =>
    isAgentPodError(error, 'resource_exhausted') && error.reason === 'disk.full'
  assert.throws(() => store.insert(large, undefined), isFull)
  const small = sandbox('full')
  store.insert(small, undefined)
  assert.throws(() => store.update(large, small), isFull)
})
