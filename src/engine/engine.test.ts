import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import { parseOwner, type SandboxId } from '../core/id.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../store/events.ts'
import { type SandboxStore, STATE_MIGRATIONS, sandboxStore } from '../store/sandboxes.ts'
import { snapshotStore } from '../store/snapshots.ts'
import { silentLog } from '../telemetry/log.ts'
import { FakeClock, settled } from '../testing/fake-clock.ts'
import { FakeProvider } from '../testing/fake-provider.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import type { CreateRequest } from './create.ts'
import { Engine } from './engine.ts'

const HOUR_MS = 3_600_000
const SWEEP_MS = 3000

let state: DatabaseSync
let events: DatabaseSync
let store: SandboxStore
let clock: FakeClock
let provider: FakeProvider
let engine: Engine

beforeEach(async () => {
  state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  store = sandboxStore(state)
  clock = new FakeClock()
  provider = new FakeProvider({ clock, limits: { swap: 'none' } })
  engine = new Engine({
    sandboxes: store,
    snapshots: snapshotStore(state),
    tmpDir: tmpdir(),
    events: eventStore(events),
    providers: [provider],
    roots: {
      ensure: async (base) =>
        base.name === 'host'
          ? { root: { kind: 'host' } }
          : { root: { kind: 'layers', layers: ['0'.repeat(64)] } },
    },
    owner: parseOwner('engine-test'),
    clock,
    random: new SeededRandom(11),
    log: silentLog,
  })
  await engine.open()
})

afterEach(() => {
  engine.close()
  assert.equal(clock.waiting, provider.existing.length * 2, 'a timer was left running')
  state.close()
  events.close()
})

function fails(work: Promise<unknown> | (() => unknown), code: ErrorCode, reason?: string): Promise<void> {
  const promise = typeof work === 'function' ? (async () => work())() : work
  return assert.rejects(promise, (error) => {
    assert.ok(isAgentPodError(error, code), String(error))
    if (reason !== undefined) assert.equal(error.reason, reason)
    return true
  })
}

function typesOf(id: SandboxId): string[] {
  return engine.events(id, 0).map(({ type }) => type)
}

describe('create', () => {
  test('gives a running sandbox that is stored, listed and live', async () => {
    const sandbox = await engine.create({ name: 'box', labels: { a: 'b' }, resources: { memoryMib: 64 } })
    assert.equal(sandbox.state, 'running')
    assert.equal(sandbox.deadlineAt, clock.now() + HOUR_MS)
    assert.equal(sandbox.limits?.memory.level, 'enforced')
    assert.deepEqual(store.get(sandbox.id), sandbox)
    assert.deepEqual(engine.list({ labels: {}, all: false }), [sandbox])
    assert.deepEqual(engine.list({ labels: { a: 'c' }, all: false }), [])
    assert.deepEqual(engine.get('box'), sandbox)
    assert.equal(engine.live('box'), engine.live(sandbox.id))
    assert.deepEqual(typesOf(sandbox.id), ['sandbox.creating', 'sandbox.running'])
  })

  test('tells the guest what the sandbox is', async () => {
    const { id } = await engine.create({
      environment: { variables: { A: '1' }, user: 'me', workdir: '/w', sudo: true },
      lifetime: { ttlMs: 5000, idleMs: 700 },
    })
    assert.deepEqual(provider.inside(id).init.value, {
      env: { LANG: 'C.UTF-8', PATH: '/usr/local/bin:/usr/bin:/bin', A: '1' },
      defaultUser: 'me',
      defaultWorkdir: '/w',
      sudo: true,
      lease: { remainingMs: 5000, idleMs: 700 },
    })
  })

  test('stores its intent before the provider is asked', async () => {
    const seen: (Sandbox | undefined)[] = []
    provider.onCreate = ({ sandboxId }) => seen.push(store.get(sandboxId))
    const { id } = await engine.create({ name: 'box', requestKey: 'k' })
    assert.deepEqual(
      seen.map((record) => [record?.id, record?.state, record?.name]),
      [[id, 'creating', 'box']],
    )
    assert.equal(store.requested('local', 'k')?.sandbox.id, id)
  })

  for (const [what, code] of [
    ['create', 'resource_exhausted'],
    ['configure', 'unavailable'],
  ] as const) {
    test(`that fails at the provider’s ${what} leaves nothing and a record that says why`, async () => {
      provider.fail(what, { code, times: 1 })
      await fails(engine.create({ name: 'box' }), code, 'fake.fault')
      assert.deepEqual(provider.existing, [])
      const [record] = engine.list({ labels: {}, all: true })
      assert.equal(record?.state, 'failed')
      assert.equal(record?.ending?.code, code)
      assert.equal(record?.endedAt, clock.now())
      assert.deepEqual(engine.list({ labels: {}, all: false }), [])
      assert.deepEqual(typesOf(record?.id as SandboxId), ['sandbox.creating', 'sandbox.failed'])
      assert.equal((await engine.create({ name: 'box' })).state, 'running')
    })
  }

  test('whose answer is lost is undone', async () => {
    provider.fail('create', { times: 1, isAfter: true })
    await fails(engine.create({}), 'unavailable')
    assert.deepEqual(provider.existing, [])
  })

  test('whose undo fails as well is cleaned up by the sweep', async () => {
    provider.fail('configure', { times: 1 })
    provider.fail('destroy', { times: 1 })
    await fails(engine.create({ name: 'box' }), 'unavailable')
    assert.equal(provider.existing.length, 1)
    assert.equal(engine.get('box').state, 'failed')
    await clock.advance(SWEEP_MS)
    assert.deepEqual(provider.existing, [])
    await fails(() => engine.get('box'), 'not_found')
  })

  test('that cannot be recorded for want of disk leaves nothing running', async () => {
    // Room for the first record, and none for what the provider answers.
    provider.onCreate = () =>
      state.exec(`PRAGMA max_page_count = ${state.prepare('PRAGMA page_count').get()?.['page_count']}`)
    const variables = { LONG: 'x'.repeat(100) }
    const labels = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`k${i}`, 'v'.repeat(56)]))
    let refused: unknown
    for (let i = 0; i < 200 && refused === undefined; i++) {
      await engine.create({ labels, environment: { variables } }).catch((error) => {
        refused = error
      })
    }
    assert.ok(isAgentPodError(refused, 'resource_exhausted'), String(refused))
    state.exec('PRAGMA max_page_count = 1000000')
    const running = engine.list({ labels: {}, all: false }).filter(({ state: at }) => at === 'running')
    assert.deepEqual(provider.existing.sort(), running.map(({ id }) => id).sort())
    for (const { id } of running) await engine.destroy(id)
  })

  const WRONG: readonly [name: string, request: CreateRequest, reason: string][] = [
    ['a time to live that is too short', { lifetime: { ttlMs: 999 } }, 'lifetime.ttl'],
    ['a time to live that is too long', { lifetime: { ttlMs: 30 * 24 * HOUR_MS + 1 } }, 'lifetime.ttl'],
    ['a time to live with a fraction', { lifetime: { ttlMs: 1000.5 } }, 'lifetime.ttl'],
    ['a negative idle time', { lifetime: { idleMs: -1 } }, 'lifetime.idle'],
    ['a hostile name', { name: '../x' }, 'name.malformed'],
    ['no memory', { resources: { memoryMib: 0 } }, 'resources.memoryMib'],
  ]
  for (const [name, request, reason] of WRONG) {
    test(`with ${name} is refused before anything is stored`, async () => {
      await fails(engine.create(request), 'invalid_argument', reason)
      assert.deepEqual(
        provider.calls.filter((call) => call.startsWith('create')),
        [],
      )
      assert.deepEqual(engine.list({ labels: {}, all: true }), [])
    })
  }

  test('with a limit that cannot hold is refused, and without asking for it is not', async () => {
    await fails(engine.create({ resources: { swapMib: 64 } }), 'unsupported')
    assert.deepEqual(provider.existing, [])
    assert.equal((await engine.create({})).limits?.swap.level, 'none')
  })

  test('with a name that is taken is refused, and the first one lives on', async () => {
    const first = await engine.create({ name: 'box' })
    await fails(engine.create({ name: 'box' }), 'already_exists', 'sandbox.name_taken')
    assert.deepEqual(provider.existing, [first.id])
    await engine.destroy('box')
    const second = await engine.create({ name: 'box' })
    assert.equal(engine.get('box').id, second.id)
  })

  test('with one name twenty times at once makes one', async () => {
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => engine.create({ name: 'box' })))
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
    assert.equal(provider.existing.length, 1)
  })

  test('twenty at once makes twenty', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => engine.create({})))
    assert.equal(new Set(made.map(({ id }) => id)).size, 20)
    assert.deepEqual(provider.existing.sort(), made.map(({ id }) => id).sort())
  })
})

describe('an idempotency key', () => {
  const request = { labels: { a: '1', b: '2' }, requestKey: 'key' }

  test('used again gives the first sandbox, however the request was ordered', async () => {
    const first = await engine.create(request)
    const second = await engine.create({ requestKey: 'key', labels: { b: '2', a: '1' } })
    assert.deepEqual(second, first)
    assert.equal(provider.existing.length, 1)
  })

  test('used fifty times at once makes one sandbox', async () => {
    const made = await Promise.all(Array.from({ length: 50 }, () => engine.create(request)))
    assert.equal(new Set(made.map(({ id }) => id)).size, 1)
    assert.equal(provider.existing.length, 1)
  })

  test('used for another request is refused', async () => {
    await engine.create(request)
    await fails(engine.create({ ...request, labels: { a: '1' } }), 'conflict', 'request_key.reused')
    assert.equal(provider.existing.length, 1)
  })

  test('of a create that failed gives the same failure, and makes nothing', async () => {
    provider.fail('create', { code: 'resource_exhausted', times: 1 })
    await fails(engine.create(request), 'resource_exhausted', 'fake.fault')
    await fails(engine.create(request), 'resource_exhausted', 'fake.fault')
    assert.deepEqual(provider.existing, [])
  })

  test('of a sandbox that has ended gives that sandbox as it is now', async () => {
    const { id } = await engine.create(request)
    await engine.destroy(id)
    const again = await engine.create(request)
    assert.equal(again.id, id)
    assert.equal(again.state, 'destroyed')
    assert.deepEqual(provider.existing, [])
  })

  test('of a request that was refused for its content is free', async () => {
    await fails(engine.create({ requestKey: 'key', name: '-' }), 'invalid_argument')
    assert.equal((await engine.create(request)).state, 'running')
  })
})

describe('destroy', () => {
  test('ends a sandbox, twice with the same answer', async () => {
    const { id } = await engine.create({ name: 'box' })
    const { ended } = engine.live(id)
    const first = await engine.destroy('box')
    assert.equal(first.state, 'destroyed')
    assert.equal(first.endedAt, clock.now())
    assert.equal(ended.signal.aborted, true)
    assert.deepEqual(provider.existing, [])
    await clock.advance(1000)
    assert.deepEqual(await engine.destroy(id), first)
    assert.deepEqual(typesOf(id).slice(2), ['sandbox.destroying', 'sandbox.destroyed'])
    await fails(() => engine.live(id), 'not_found', 'sandbox.ended')
    await fails(engine.destroy('box'), 'not_found', 'sandbox.unknown')
  })

  test('ten times at once ends it once', async () => {
    const { id } = await engine.create({})
    const results = await Promise.all(Array.from({ length: 10 }, () => engine.destroy(id)))
    assert.deepEqual(new Set(results.map(({ state: at }) => at)), new Set(['destroyed']))
    assert.equal(provider.calls.filter((call) => call === `destroy ${id}`).length, 1)
  })

  test('in an outage is never a false "gone"; a later sweep finishes it', async () => {
    const { id } = await engine.create({ name: 'box' })
    provider.fail('destroy')
    await fails(engine.destroy(id), 'unavailable')
    assert.equal(engine.get('box').state, 'destroying')
    assert.equal(store.get(id)?.endedAt, undefined)
    await fails(() => engine.live(id), 'conflict', 'sandbox.state')
    await fails(engine.create({ name: 'box' }), 'already_exists')
    await clock.advance(5 * SWEEP_MS)
    assert.equal(engine.get(id).state, 'destroying')
    assert.deepEqual(provider.existing, [id])
    provider.heal()
    await clock.advance(SWEEP_MS)
    assert.equal(engine.get(id).state, 'destroyed')
    assert.deepEqual(provider.existing, [])
  })

  test('while the create is under way waits for it', async () => {
    const release = provider.hang('create')
    const creating = engine.create({ name: 'box' })
    await settled()
    const destroying = engine.destroy('box')
    await settled()
    release()
    assert.equal((await creating).state, 'running')
    assert.equal((await destroying).state, 'destroyed')
    assert.deepEqual(provider.existing, [])
  })

  test('of everything clears the provider', async () => {
    await Promise.all([engine.create({}), engine.create({}), engine.create({})])
    await engine.clear()
    assert.deepEqual(provider.existing, [])
    assert.equal(provider.calls.at(-1), 'clear')
    assert.equal(engine.livingCount, 0)
  })
})

describe('time', () => {
  test('a sandbox ends when its time is up, and says so', async () => {
    const { id } = await engine.create({ lifetime: { ttlMs: 10_000 } })
    await clock.advance(9_999)
    assert.equal(engine.get(id).state, 'running')
    await clock.advance(1)
    const ended = engine.get(id)
    assert.equal(ended.state, 'destroyed')
    assert.equal(ended.ending?.reason, 'sandbox.expired')
    assert.deepEqual(provider.existing, [])
  })

  test('extend gives it that long from now, in all three places', async () => {
    const { id } = await engine.create({ lifetime: { ttlMs: 10_000 } })
    await clock.advance(9000)
    const extended = await engine.extend(id, 60_000)
    assert.equal(extended.deadlineAt, clock.now() + 60_000)
    assert.equal(store.get(id)?.deadlineAt, extended.deadlineAt)
    await clock.advance(59_000)
    assert.equal(engine.get(id).state, 'running')
    await clock.advance(2000)
    assert.equal(engine.get(id).state, 'destroyed')
    assert.deepEqual(typesOf(id)[2], 'sandbox.extended')
  })

  test('extend may also shorten', async () => {
    const { id } = await engine.create({})
    await engine.extend(id, 1000)
    await clock.advance(1000)
    assert.equal(engine.get(id).state, 'destroyed')
  })

  for (const ttlMs of [0, 999, 1000.5, Number.NaN, 31 * 24 * HOUR_MS]) {
    test(`extend by ${ttlMs} ms is refused`, async () => {
      const { id } = await engine.create({})
      await fails(engine.extend(id, ttlMs), 'invalid_argument', 'lifetime.ttl')
    })
  }

  test('extend of one that has ended is not found', async () => {
    const { id } = await engine.create({})
    await engine.destroy(id)
    await fails(engine.extend(id, 5000), 'not_found', 'sandbox.ended')
  })
})

describe('a sandbox that ends by itself', () => {
  const ENDS: readonly { name: string; how: { oomKilled?: boolean; isSilent?: boolean }; reason: string }[] =
    [
      { name: 'has failed', how: {}, reason: 'sandbox.lost' },
      { name: 'for want of memory says so', how: { oomKilled: true }, reason: 'sandbox.oom' },
      {
        name: 'without a word is found by the sweep',
        how: { oomKilled: true, isSilent: true },
        reason: 'sandbox.oom',
      },
    ]
  for (const { name, how, reason } of ENDS) {
    test(name, async () => {
      const { id } = await engine.create({ name: 'box' })
      const { ended } = engine.live(id)
      provider.exit(id, how)
      await clock.advance(SWEEP_MS)
      const record = engine.get(id)
      assert.equal(record.state, 'failed')
      assert.equal(record.ending?.reason, reason)
      assert.notEqual(record.endedAt, undefined)
      assert.equal(ended.signal.aborted, true)
      assert.deepEqual(provider.existing, [])
      await fails(() => engine.get('box'), 'not_found')
    })
  }

  test('and vanishes is lost', async () => {
    const { id } = await engine.create({})
    provider.lose(id)
    await clock.advance(SWEEP_MS)
    assert.equal(engine.get(id).ending?.reason, 'sandbox.lost')
  })

  test('is not said to be lost while nobody can be asked', async () => {
    const { id } = await engine.create({})
    provider.fail('list')
    provider.fail('inspect')
    provider.exit(id)
    await clock.advance(10 * SWEEP_MS)
    assert.equal(engine.get(id).state, 'running')
    provider.heal()
    await clock.advance(SWEEP_MS)
    assert.equal(engine.get(id).state, 'failed')
  })

  test('keeps the name of the one that follows', async () => {
    const first = await engine.create({ name: 'box' })
    const release = provider.hang('destroy')
    provider.exit(first.id)
    // A sweep finds it failed and waits behind the clean-up that is under way.
    await clock.advance(SWEEP_MS)
    assert.equal(engine.get('box').state, 'failed')
    const releaseSweep = provider.hang('destroy')
    release()
    await settled()
    const second = await engine.create({ name: 'box' })
    const { endedAt } = engine.get(first.id)
    await clock.advance(SWEEP_MS)
    releaseSweep()
    await clock.advance(SWEEP_MS)
    assert.equal(engine.get(first.id).endedAt, endedAt)
    assert.equal(engine.get('box').id, second.id)
    assert.equal(engine.get('box').state, 'running')
  })
})

test('an outage of the provider leaves running sandboxes as they are', async () => {
  const { id } = await engine.create({})
  provider.fail('list')
  provider.fail('inspect')
  await clock.advance(10 * SWEEP_MS)
  assert.equal(engine.get(id).state, 'running')
  await engine.live(id).guest.health({ timeoutMs: 100 })
})

test('stats join what the host and the guest count', async () => {
  const { id } = await engine.create({ resources: { memoryMib: 64, pids: 32 } })
  await clock.advance(5)
  const stats = await engine.stats(id)
  assert.equal(stats.memLimitBytes, 64 * 1024 * 1024)
  assert.equal(stats.pidsLimit, 32)
  assert.equal(stats.uptimeMs, 5)
})

for (const ref of ['none', 'unknown-name', 'abcdefgh12345678']) {
  test(`${ref} is not found by any verb`, async () => {
    await fails(() => engine.get(ref), 'not_found', 'sandbox.unknown')
    await fails(() => engine.live(ref), 'not_found', 'sandbox.unknown')
    await fails(() => engine.events(ref, 0), 'not_found')
    await fails(() => engine.destroy(ref), 'not_found')
    await fails(() => engine.extend(ref, 5000), 'not_found')
    await fails(() => engine.stats(ref), 'not_found')
  })
}

test('a reference that is no name is malformed', async () => {
  for (const ref of ['', '../x', 'A', 'a b']) await fails(() => engine.get(ref), 'invalid_argument')
})
