import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { LOCAL } from '../core/principal.ts'
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

test('a key gives the principal of its scope, also after a restart', () => {
  const user = keys.create({ name: 'a', scope: 'sandboxes' }, LOCAL)
  const open = { mode: 'open' } as const
  const admin = keys.create({ name: 'b', scope: 'admin', network: open }, LOCAL)
  for (const some of [keys, reopened()]) {
    const network = { mode: 'allowlist' }
    assert.deepEqual(some.verify(user.secret), { owner: user.key.id, isAdmin: false, network })
    assert.deepEqual(some.verify(admin.secret), { owner: admin.key.id, isAdmin: true, network: open })
  }
})

test('the secret of a key has the form that E2B’s SDKs check', () => {
  assert.match(keys.create({ name: 'a', scope: 'sandboxes' }, LOCAL).secret, /^e2b_[0-9a-f]{40}$/)
})

test('unknown, revoked and expired keys are refused with the same message', () => {
  const { secret } = keys.create({ name: 'a', scope: 'sandboxes' }, LOCAL)
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

test('a key expires at its deadline, not before, also after a restart', async () => {
  const { secret } = keys.create({ name: 'a', scope: 'sandboxes', ttlMs: 5000 }, LOCAL)
  await clock.advance(4999)
  keys.verify(secret)
  await clock.advance(1)
  refuses(() => keys.verify(secret), 'key.invalid')
  refuses(() => reopened().verify(secret), 'key.invalid')
})

test('a revoked key ends at once and for good, and can be revoked twice', async () => {
  const { key, secret } = keys.create({ name: 'a', scope: 'sandboxes' }, LOCAL)
  const first = keys.revoke(key.id, LOCAL)
  refuses(() => keys.verify(secret), 'key.invalid')
  await clock.advance(1000)
  assert.deepEqual(keys.revoke(key.id, LOCAL), first)
  refuses(() => reopened().verify(secret), 'key.invalid')
  assert.equal(reopened().list()[0]?.revokedAt, first.revokedAt)
})

test('an unknown key cannot be revoked', () => {
  assert.throws(
    () => keys.revoke('nobody', LOCAL),
    (error) => isAgentPodError(error, 'not_found'),
  )
})

test('a key with an invalid time to live is refused', () => {
  for (const ttlMs of [0, -1, 999, Number.NaN, Number.POSITIVE_INFINITY, 1e15])
    assert.throws(
      () => keys.create({ name: 'a', scope: 'sandboxes', ttlMs }, LOCAL),
      /from 1 second to 10 years/,
    )
})

test('CP-12 the secret of a key is in no database, list or audit entry', () => {
  const { secret } = keys.create({ name: 'a', scope: 'admin' }, LOCAL)
  const rows = JSON.stringify([
    state.prepare('SELECT * FROM keys').all(),
    events.prepare('SELECT * FROM audit').all(),
    keys.list(),
  ])
  assert.ok(!rows.includes(secret) && !rows.includes(secret.slice(4)))
})

test('creating and revoking a key is audited', () => {
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
