import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { type AuditStore, auditStore } from '../store/audit.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS } from '../store/events.ts'
import { keyStore } from '../store/keys.ts'
import { STATE_MIGRATIONS } from '../store/sandboxes.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { Keys } from './keys.ts'

let state: ReturnType<typeof openDatabase>
let events: ReturnType<typeof openDatabase>
let audit: AuditStore
let clock: FakeClock
let keys: Keys
const random = new SeededRandom(3)
const reopened = (): Keys => new Keys({ store: keyStore(state), clock, random, audit })

beforeEach(() => {
  state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  audit = auditStore(events)
  clock = new FakeClock()
  keys = reopened()
})
afterEach(() => {
  state.close()
  events.close()
})

function refuses(work: () => unknown, reason: string): void {
  assert.throws(work, (error) => isAgentPodError(error, 'unauthenticated') && error.reason === reason)
}

test('a key is who it says, by its scope, also after a restart', () => {
  const user = keys.create({ name: 'a', scope: 'sandboxes' })
  const open = { mode: 'open' } as const
  const admin = keys.create({ name: 'b', scope: 'admin', network: open })
  for (const some of [keys, reopened()]) {
    const network = { mode: 'allowlist' }
    assert.deepEqual(some.verify(user.secret), { owner: user.key.id, isAdmin: false, network })
    assert.deepEqual(some.verify(admin.secret), { owner: admin.key.id, isAdmin: true, network: open })
  }
})

test('a secret has the form that E2B’s SDKs look for', () => {
  assert.match(keys.create({ name: 'a', scope: 'sandboxes' }).secret, /^e2b_[0-9a-f]{40}$/)
})

test('anything but a living key is refused in the same words', () => {
  const { secret } = keys.create({ name: 'a', scope: 'sandboxes' })
  refuses(() => keys.verify(undefined), 'key.missing')
  for (const wrong of [
    '',
    ' ',
    `${secret} `,
    secret.toUpperCase(),
    secret.slice(0, -1),
    `${secret}0`,
    '__proto__',
  ])
    refuses(() => keys.verify(wrong), 'key.invalid')
})

test('a key ends when its time is up, not before, and also after a restart', async () => {
  const { secret } = keys.create({ name: 'a', scope: 'sandboxes', ttlMs: 5000 })
  await clock.advance(4999)
  keys.verify(secret)
  await clock.advance(1)
  refuses(() => keys.verify(secret), 'key.invalid')
  refuses(() => reopened().verify(secret), 'key.invalid')
})

test('a revoked key ends at once, a second time too, and for good', async () => {
  const { key, secret } = keys.create({ name: 'a', scope: 'sandboxes' })
  const first = keys.revoke(key.id)
  refuses(() => keys.verify(secret), 'key.invalid')
  await clock.advance(1000)
  assert.deepEqual(keys.revoke(key.id), first)
  refuses(() => reopened().verify(secret), 'key.invalid')
  assert.equal(reopened().list()[0]?.revokedAt, first.revokedAt)
})

test('a key that is not there cannot be revoked', () => {
  assert.throws(
    () => keys.revoke('nobody'),
    (error) => isAgentPodError(error, 'not_found'),
  )
})

test('a life that is no life is refused', () => {
  for (const ttlMs of [0, -1, 999, Number.NaN, Number.POSITIVE_INFINITY, 1e15])
    assert.throws(() => keys.create({ name: 'a', scope: 'sandboxes', ttlMs }), /from a second to ten years/)
})

test('CP-12 neither the database nor the list nor the audit has a secret', () => {
  const { secret } = keys.create({ name: 'a', scope: 'admin' })
  const rows = JSON.stringify([
    state.prepare('SELECT * FROM keys').all(),
    events.prepare('SELECT * FROM audit').all(),
    keys.list(),
  ])
  assert.ok(!rows.includes(secret) && !rows.includes(secret.slice(4)))
})

test('who made and revoked a key is written down', () => {
  const admin = { owner: 'boss', isAdmin: true }
  const { key } = keys.create({ name: 'a', scope: 'sandboxes' }, admin)
  keys.revoke(key.id, admin)
  keys.revoke(key.id, admin)
  assert.deepEqual(
    audit.list({ after: 0, limit: 10 }).map(({ actor, action, subject }) => [actor, action, subject]),
    [
      ['boss', 'key.create', key.id],
      ['boss', 'key.revoke', key.id],
    ],
  )
})
