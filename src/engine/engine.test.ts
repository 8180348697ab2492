import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import { LOCAL } from '../core/principal.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { type SandboxStore, sandboxStore } from '../store/sandboxes.ts'
import { type FakeClock, settled } from '../testing/fake-clock.ts'
import type { FakeProvider } from '../testing/fake-provider.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import type { Engine } from './engine.ts'
import type { NewSandbox } from './lifecycle/sandbox-operations.ts'
import { EngineFixture } from './testing/engine-fixture.ts'

const HOUR_MS = 3_600_000
const SWEEP_MS = 3000

let fixture: EngineFixture
let store: SandboxStore
let clock: FakeClock
let provider: FakeProvider
let engine: Engine

beforeEach(async () => {
  fixture = new EngineFixture({
    provider: { limits: { swap: 'none' } },
    parts: {
      roots: {
        ensure: async (base) =>
          base.name === 'host'
            ? { root: { kind: 'host' } }
            : { root: { kind: 'layers', layers: ['0'.repeat(64)] } },
      },
      random: new SeededRandom(11),
    },
  })
  clock = fixture.clock
  provider = fixture.provider
  store = sandboxStore(fixture.state)
  engine = await fixture.open()
})

afterEach(() => {
  engine.close()
  assert.equal(clock.waiting, provider.existing.length * 2, 'a timer was left running')
  fixture[Symbol.dispose]()
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
  return engine.events.list(id, 0, LOCAL).map(({ type }) => type)
}

describe('create', () => {
  test('create gives a running sandbox that is stored, listed and connected', async () => {
    const sandbox = await engine.sandboxes.create(
      { name: 'box', labels: { a: 'b' }, resources: { memoryMib: 64 } },
      LOCAL,
    )
    assert.equal(sandbox.state, 'running')
    assert.equal(sandbox.deadlineAt, clock.now() + HOUR_MS)
    assert.equal(sandbox.limits?.memory.level, 'enforced')
    assert.deepEqual(store.get(sandbox.id), sandbox)
    assert.deepEqual(engine.sandboxes.list({ labels: {}, all: false }, LOCAL), [sandbox])
    assert.deepEqual(engine.sandboxes.list({ labels: { a: 'c' }, all: false }, LOCAL), [])
    assert.deepEqual(engine.sandboxes.get('box', LOCAL), sandbox)
    assert.equal(engine.guests.connection('box', LOCAL), engine.guests.connection(sandbox.id, LOCAL))
    assert.deepEqual(typesOf(sandbox.id), ['sandbox.creating', 'sandbox.running'])
  })

  test('create configures the guest', async () => {
    const { id } = await engine.sandboxes.create(
      {
        environment: { variables: { A: '1' }, user: 'me', workdir: '/w', sudo: true },
        lifetime: { ttlMs: 5000, idleMs: 700 },
      },
      LOCAL,
    )
    assert.deepEqual(provider.inside(id).init.value, {
      env: { LANG: 'C.UTF-8', PATH: '/usr/local/bin:/usr/bin:/bin', A: '1' },
      defaultUser: 'me',
      defaultWorkdir: '/w',
      sudo: true,
      lease: { remainingMs: 5000, idleMs: 700 },
    })
  })

  test('create stores its intent before it calls the provider', async () => {
    const seen: (Sandbox | undefined)[] = []
    provider.onCreate = ({ sandboxId }) => seen.push(store.get(sandboxId))
    const { id } = await engine.sandboxes.create({ name: 'box', requestKey: 'k' }, LOCAL)
    assert.deepEqual(
      seen.map((record) => [record?.id, record?.state, record?.name]),
      [[id, 'creating', 'box']],
    )
    assert.equal(store.requested('local', 'k')?.sandbox.id, id)
  })

  test('create and destroy answer when their records are on the disk', async () => {
    let flush: (() => void) | undefined
    const slow = { ...store, synced: () => new Promise<void>((resolve) => (flush = resolve)) }
    engine.close()
    engine = fixture.make({ sandboxes: slow })
    await engine.open()
    const answers: string[] = []
    const creating = engine.sandboxes.create({ name: 'box' }, LOCAL).then(() => answers.push('created'))
    await settled()
    assert.deepEqual([answers, store.named('local', 'box')?.state], [[], 'running'])
    flush?.()
    await creating
    const destroying = engine.sandboxes.destroy('box', LOCAL).then(() => answers.push('destroyed'))
    await settled()
    assert.deepEqual([answers, store.named('local', 'box')], [['created'], undefined])
    flush?.()
    await destroying
    assert.deepEqual(answers, ['created', 'destroyed'])
  })

  for (const [what, code] of [
    ['create', 'resource_exhausted'],
    ['configure', 'unavailable'],
  ] as const) {
    test(`BOX-5 a create that fails at the provider’s ${what} leaves nothing and a record that says why`, async () => {
      provider.fail(what, { code, times: 1 })
      await fails(engine.sandboxes.create({ name: 'box' }, LOCAL), code, 'fake.fault')
      assert.deepEqual(provider.existing, [])
      const [record] = engine.sandboxes.list({ labels: {}, all: true }, LOCAL)
      assert.equal(record?.state, 'failed')
      assert.equal(record?.ending?.code, code)
      assert.equal(record?.endedAt, clock.now())
      assert.deepEqual(engine.sandboxes.list({ labels: {}, all: false }, LOCAL), [])
      assert.deepEqual(typesOf(record?.id as SandboxId), ['sandbox.creating', 'sandbox.failed'])
      assert.equal((await engine.sandboxes.create({ name: 'box' }, LOCAL)).state, 'running')
    })
  }

  test('BOX-5 a create whose answer is lost is undone', async () => {
    provider.fail('create', { times: 1, isAfter: true })
    await fails(engine.sandboxes.create({}, LOCAL), 'unavailable')
    assert.deepEqual(provider.existing, [])
  })

  test('a create whose undo fails is cleaned up by the sweep', async () => {
    provider.fail('configure', { times: 1 })
    provider.fail('destroy', { times: 1 })
    await fails(engine.sandboxes.create({ name: 'box' }, LOCAL), 'unavailable')
    assert.equal(provider.existing.length, 1)
    assert.equal(engine.sandboxes.get('box', LOCAL).state, 'failed')
    await clock.advance(SWEEP_MS)
    assert.deepEqual(provider.existing, [])
    await fails(() => engine.sandboxes.get('box', LOCAL), 'not_found')
  })

  test('BOX-5 a create that cannot be recorded on a full disk leaves nothing running', async () => {
    // Room for the first record, and none for what the provider answers.
    provider.onCreate = () =>
      fixture.state.exec(
        `PRAGMA max_page_count = ${fixture.state.prepare('PRAGMA page_count').get()?.['page_count']}`,
      )
    const variables = { LONG: 'x'.repeat(100) }
    const labels = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`k${i}`, 'v'.repeat(56)]))
    let refused: unknown
    for (let i = 0; i < 200 && refused === undefined; i++) {
      await engine.sandboxes.create({ labels, environment: { variables } }, LOCAL).catch((error) => {
        refused = error
      })
    }
    assert.ok(isAgentPodError(refused, 'resource_exhausted'), String(refused))
    fixture.state.exec('PRAGMA max_page_count = 1000000')
    const running = engine.sandboxes
      .list({ labels: {}, all: false }, LOCAL)
      .filter(({ state: at }) => at === 'running')
    assert.deepEqual(provider.existing.sort(), running.map(({ id }) => id).sort())
    for (const { id } of running) await engine.sandboxes.destroy(id, LOCAL)
  })

  const WRONG: readonly [name: string, request: NewSandbox, reason: string][] = [
    ['a time to live that is too short', { lifetime: { ttlMs: 999 } }, 'lifetime.ttl'],
    ['a time to live that is too long', { lifetime: { ttlMs: 30 * 24 * HOUR_MS + 1 } }, 'lifetime.ttl'],
    ['a time to live with a fraction', { lifetime: { ttlMs: 1000.5 } }, 'lifetime.ttl'],
    ['a negative idle time', { lifetime: { idleMs: -1 } }, 'lifetime.idle'],
    ['a hostile name', { name: '../x' }, 'name.malformed'],
    ['no memory', { resources: { memoryMib: 0 } }, 'resources.memoryMib'],
  ]
  for (const [name, request, reason] of WRONG) {
    test(`a create with ${name} is refused before anything is stored`, async () => {
      await fails(engine.sandboxes.create(request, LOCAL), 'invalid_argument', reason)
      assert.deepEqual(
        provider.calls.filter((call) => call.startsWith('create')),
        [],
      )
      assert.deepEqual(engine.sandboxes.list({ labels: {}, all: true }, LOCAL), [])
    })
  }

  test('a create that asks for an unenforceable limit is refused; without asking it is not', async () => {
    await fails(engine.sandboxes.create({ resources: { swapMib: 64 } }, LOCAL), 'unsupported')
    assert.deepEqual(provider.existing, [])
    assert.equal((await engine.sandboxes.create({}, LOCAL)).limits?.swap.level, 'none')
  })

  test('a create with a taken name is refused, and the first sandbox continues', async () => {
    const first = await engine.sandboxes.create({ name: 'box' }, LOCAL)
    await fails(engine.sandboxes.create({ name: 'box' }, LOCAL), 'already_exists', 'sandbox.name_taken')
    assert.deepEqual(provider.existing, [first.id])
    await engine.sandboxes.destroy('box', LOCAL)
    const second = await engine.sandboxes.create({ name: 'box' }, LOCAL)
    assert.equal(engine.sandboxes.get('box', LOCAL).id, second.id)
  })

  test('twenty simultaneous creates with one name make one sandbox', async () => {
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, () => engine.sandboxes.create({ name: 'box' }, LOCAL)),
    )
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
    assert.equal(provider.existing.length, 1)
  })

  test('twenty simultaneous creates make twenty sandboxes', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => engine.sandboxes.create({}, LOCAL)))
    assert.equal(new Set(made.map(({ id }) => id)).size, 20)
    assert.deepEqual(provider.existing.sort(), made.map(({ id }) => id).sort())
  })
})

describe('an idempotency key', () => {
  const request = { labels: { a: '1', b: '2' }, requestKey: 'key' }

  test('BOX-6 an idempotency key used again gives the first sandbox, however the request was ordered', async () => {
    const first = await engine.sandboxes.create(request, LOCAL)
    const second = await engine.sandboxes.create({ requestKey: 'key', labels: { b: '2', a: '1' } }, LOCAL)
    assert.deepEqual(second, first)
    assert.equal(provider.existing.length, 1)
  })

  test('BOX-6 an idempotency key used fifty times at once makes one sandbox', async () => {
    const made = await Promise.all(Array.from({ length: 50 }, () => engine.sandboxes.create(request, LOCAL)))
    assert.equal(new Set(made.map(({ id }) => id)).size, 1)
    assert.equal(provider.existing.length, 1)
  })

  test('an idempotency key used for another request is refused', async () => {
    await engine.sandboxes.create(request, LOCAL)
    await fails(
      engine.sandboxes.create({ ...request, labels: { a: '1' } }, LOCAL),
      'conflict',
      'request_key.reused',
    )
    assert.equal(provider.existing.length, 1)
  })

  test('the idempotency key of a failed create gives the same failure, and makes nothing', async () => {
    provider.fail('create', { code: 'resource_exhausted', times: 1 })
    await fails(engine.sandboxes.create(request, LOCAL), 'resource_exhausted', 'fake.fault')
    await fails(engine.sandboxes.create(request, LOCAL), 'resource_exhausted', 'fake.fault')
    assert.deepEqual(provider.existing, [])
  })

  test('the idempotency key of an ended sandbox gives that sandbox as it is now', async () => {
    const { id } = await engine.sandboxes.create(request, LOCAL)
    await engine.sandboxes.destroy(id, LOCAL)
    const again = await engine.sandboxes.create(request, LOCAL)
    assert.equal(again.id, id)
    assert.equal(again.state, 'destroyed')
    assert.deepEqual(provider.existing, [])
  })

  test('the idempotency key of an invalid request can be used again', async () => {
    await fails(engine.sandboxes.create({ requestKey: 'key', name: '-' }, LOCAL), 'invalid_argument')
    assert.equal((await engine.sandboxes.create(request, LOCAL)).state, 'running')
  })
})

describe('destroy', () => {
  test('BOX-7 destroy ends a sandbox, twice with the same answer', async () => {
    const { id } = await engine.sandboxes.create({ name: 'box' }, LOCAL)
    const { ended } = engine.guests.connection(id, LOCAL)
    const first = await engine.sandboxes.destroy('box', LOCAL)
    assert.equal(first.state, 'destroyed')
    assert.equal(first.endedAt, clock.now())
    assert.equal(ended.signal.aborted, true)
    assert.deepEqual(provider.existing, [])
    await clock.advance(1000)
    assert.deepEqual(await engine.sandboxes.destroy(id, LOCAL), first)
    assert.deepEqual(typesOf(id).slice(2), ['sandbox.destroying', 'sandbox.destroyed'])
    await fails(() => engine.guests.connection(id, LOCAL), 'not_found', 'sandbox.ended')
    await fails(engine.sandboxes.destroy('box', LOCAL), 'not_found', 'sandbox.unknown')
  })

  test('BOX-7 destroy ten times at once ends a sandbox once', async () => {
    const { id } = await engine.sandboxes.create({}, LOCAL)
    const results = await Promise.all(Array.from({ length: 10 }, () => engine.sandboxes.destroy(id, LOCAL)))
    assert.deepEqual(new Set(results.map(({ state: at }) => at)), new Set(['destroyed']))
    assert.equal(provider.calls.filter((call) => call === `destroy ${id}`).length, 1)
  })

  test('BOX-7 destroy in an outage is never a false "gone", and a later sweep finishes it', async () => {
    const { id } = await engine.sandboxes.create({ name: 'box' }, LOCAL)
    provider.fail('destroy')
    await fails(engine.sandboxes.destroy(id, LOCAL), 'unavailable')
    assert.equal(engine.sandboxes.get('box', LOCAL).state, 'destroying')
    assert.equal(store.get(id)?.endedAt, undefined)
    await fails(() => engine.guests.connection(id, LOCAL), 'conflict', 'sandbox.state')
    await fails(engine.sandboxes.create({ name: 'box' }, LOCAL), 'already_exists')
    await clock.advance(5 * SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'destroying')
    assert.deepEqual(provider.existing, [id])
    provider.heal()
    await clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'destroyed')
    assert.deepEqual(provider.existing, [])
  })

  test('destroy during a create waits for it', async () => {
    const release = provider.hang('create')
    const creating = engine.sandboxes.create({ name: 'box' }, LOCAL)
    await settled()
    const destroying = engine.sandboxes.destroy('box', LOCAL)
    await settled()
    release()
    assert.equal((await creating).state, 'running')
    assert.equal((await destroying).state, 'destroyed')
    assert.deepEqual(provider.existing, [])
  })

  test('destroying everything clears the provider', async () => {
    await Promise.all([
      engine.sandboxes.create({}, LOCAL),
      engine.sandboxes.create({}, LOCAL),
      engine.sandboxes.create({}, LOCAL),
    ])
    await engine.destroyAll()
    assert.deepEqual(provider.existing, [])
    assert.equal(provider.calls.at(-1), 'clear')
    assert.equal(engine.usage.count, 0)
  })
})

describe('time', () => {
  test('a sandbox is destroyed at its deadline, and its record says so', async () => {
    const { id } = await engine.sandboxes.create({ lifetime: { ttlMs: 10_000 } }, LOCAL)
    await clock.advance(9_999)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    await clock.advance(1)
    const ended = engine.sandboxes.get(id, LOCAL)
    assert.equal(ended.state, 'destroyed')
    assert.equal(ended.ending?.reason, 'sandbox.expired')
    assert.deepEqual(provider.existing, [])
  })

  test('extend sets the deadline in the record, the provider and the guest', async () => {
    const { id } = await engine.sandboxes.create({ lifetime: { ttlMs: 10_000 } }, LOCAL)
    await clock.advance(9000)
    const extended = await engine.sandboxes.extend(id, 60_000, LOCAL)
    assert.equal(extended.deadlineAt, clock.now() + 60_000)
    assert.equal(store.get(id)?.deadlineAt, extended.deadlineAt)
    await clock.advance(59_000)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    await clock.advance(2000)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'destroyed')
    assert.deepEqual(typesOf(id)[2], 'sandbox.extended')
  })

  test('extend may also shorten the time to live', async () => {
    const { id } = await engine.sandboxes.create({}, LOCAL)
    await engine.sandboxes.extend(id, 1000, LOCAL)
    await clock.advance(1000)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'destroyed')
  })

  for (const ttlMs of [0, 999, 1000.5, Number.NaN, 31 * 24 * HOUR_MS]) {
    test(`extend by ${ttlMs} ms is refused`, async () => {
      const { id } = await engine.sandboxes.create({}, LOCAL)
      await fails(engine.sandboxes.extend(id, ttlMs, LOCAL), 'invalid_argument', 'lifetime.ttl')
    })
  }

  test('extend of an ended sandbox is not found', async () => {
    const { id } = await engine.sandboxes.create({}, LOCAL)
    await engine.sandboxes.destroy(id, LOCAL)
    await fails(engine.sandboxes.extend(id, 5000, LOCAL), 'not_found', 'sandbox.ended')
  })
})

describe('a sandbox whose processes end', () => {
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
      const { id } = await engine.sandboxes.create({ name: 'box' }, LOCAL)
      const { ended } = engine.guests.connection(id, LOCAL)
      provider.exit(id, how)
      await clock.advance(SWEEP_MS)
      const record = engine.sandboxes.get(id, LOCAL)
      assert.equal(record.state, 'failed')
      assert.equal(record.ending?.reason, reason)
      assert.notEqual(record.endedAt, undefined)
      assert.equal(ended.signal.aborted, true)
      assert.deepEqual(provider.existing, [])
      await fails(() => engine.sandboxes.get('box', LOCAL), 'not_found')
    })
  }

  test('a sandbox that vanishes at the provider is lost', async () => {
    const { id } = await engine.sandboxes.create({}, LOCAL)
    provider.lose(id)
    await clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).ending?.reason, 'sandbox.lost')
  })

  test('a sandbox is not reported as lost while the provider does not answer', async () => {
    const { id } = await engine.sandboxes.create({}, LOCAL)
    provider.fail('list')
    provider.fail('inspect')
    provider.exit(id)
    await clock.advance(10 * SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    provider.heal()
    await clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'failed')
  })

  test('a late exit of an ended sandbox leaves its successor of the same name alone', async () => {
    const first = await engine.sandboxes.create({ name: 'box' }, LOCAL)
    const release = provider.hang('destroy')
    provider.exit(first.id)
    // A sweep finds it failed and waits behind the clean-up that is under way.
    await clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get('box', LOCAL).state, 'failed')
    const releaseSweep = provider.hang('destroy')
    release()
    await settled()
    const second = await engine.sandboxes.create({ name: 'box' }, LOCAL)
    const { endedAt } = engine.sandboxes.get(first.id, LOCAL)
    await clock.advance(SWEEP_MS)
    releaseSweep()
    await clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get(first.id, LOCAL).endedAt, endedAt)
    assert.equal(engine.sandboxes.get('box', LOCAL).id, second.id)
    assert.equal(engine.sandboxes.get('box', LOCAL).state, 'running')
  })
})

test('an outage of the provider leaves running sandboxes as they are', async () => {
  const { id } = await engine.sandboxes.create({}, LOCAL)
  provider.fail('list')
  provider.fail('inspect')
  await clock.advance(10 * SWEEP_MS)
  assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
  await engine.guests.connection(id, LOCAL).guest.health({ timeoutMs: 100 })
})

test('stats combine the figures of host and guest', async () => {
  const { id } = await engine.sandboxes.create({ resources: { memoryMib: 64, pids: 32 } }, LOCAL)
  await clock.advance(5)
  const stats = await engine.guests.stats(id, LOCAL)
  assert.equal(stats.memLimitBytes, 64 * 1024 * 1024)
  assert.equal(stats.pidsLimit, 32)
  assert.equal(stats.uptimeMs, 5)
})

for (const ref of ['none', 'unknown-name', 'abcdefgh12345678']) {
  test(`${ref} is not found by any operation`, async () => {
    await fails(() => engine.sandboxes.get(ref, LOCAL), 'not_found', 'sandbox.unknown')
    await fails(() => engine.guests.connection(ref, LOCAL), 'not_found', 'sandbox.unknown')
    await fails(() => engine.events.list(ref, 0, LOCAL), 'not_found')
    await fails(() => engine.sandboxes.destroy(ref, LOCAL), 'not_found')
    await fails(() => engine.sandboxes.extend(ref, 5000, LOCAL), 'not_found')
    await fails(() => engine.guests.stats(ref, LOCAL), 'not_found')
  })
}

test('a reference that cannot be a name is refused as malformed', async () => {
  for (const ref of ['', '../x', 'A', 'a b'])
    await fails(() => engine.sandboxes.get(ref, LOCAL), 'invalid_argument')
})
