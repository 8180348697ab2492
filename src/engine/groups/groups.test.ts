// Groups on a fake provider and a fake clock: failures, and how members follow the main one.
import assert from 'node:assert/strict'
import type { Duplex } from 'node:stream'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { LOCAL } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Lifetime } from '../../core/spec.ts'
import { settled } from '../../testing/fake-clock.ts'
import { SeededRandom } from '../../testing/seeded-random.ts'
import type { Optional } from '../../util/optional.ts'
import type { Engine } from '../engine.ts'
import { EngineFixture, type EngineFixtureOptions } from '../testing/engine-fixture.ts'

/** Short, because every sweep in between is run. */
const TIME = 60_000
const SWEEP_MS = 3000

class Groups extends EngineFixture {
  static async open(o: EngineFixtureOptions = {}): Promise<Groups> {
    // Shared by all engines of the fixture, so that no id comes twice.
    const groups = new Groups({ ...o, parts: { random: new SeededRandom(8), ...o.parts } })
    await groups.open()
    return groups
  }

  /** A main sandbox and a database, each with its own lifetime. */
  async pair(main: Optional<Lifetime> = {}, db: Optional<Lifetime> = {}): Promise<void> {
    await this.engine.groups.create(
      {
        name: 'shop',
        members: [
          { name: 'db', sandbox: { lifetime: db } },
          { name: 'web', main: true, after: ['db'], sandbox: { lifetime: main } },
        ],
      },
      LOCAL,
    )
    await settled()
  }

  record(member: 'web' | 'db'): Sandbox {
    const { group } = this.engine.groups.get('shop', LOCAL)
    const id = group.members.find(({ name }) => name === member)?.sandbox ?? assert.fail('no sandbox')
    return this.engine.sandboxes.get(id, LOCAL)
  }

  states(): string[] {
    return [this.record('web').state, this.record('db').state]
  }

  /** Pausing this sandbox fails until the returned function is called. */
  failPauseOf(wanted: SandboxId): () => void {
    const pausing = this.provider.pausing ?? assert.fail('it cannot pause')
    const { pause } = pausing
    pausing.pause = (id, o) => {
      if (id === wanted) this.provider.fail('pause', { times: 1 })
      return pause(id, o)
    }
    return () => {
      pausing.pause = pause
    }
  }

  dial(from: SandboxId, member: string): Promise<string> {
    return this.engine.groups.dial({ from, member, port: 1 }, AbortSignal.timeout(5000)).then(
      () => 'connected',
      (error: { reason?: string }) => error.reason ?? 'failed',
    )
  }
}

const existing = (engine: Engine): Sandbox[] => engine.sandboxes.list({ labels: {}, all: false }, LOCAL)

/** Asserts that nothing of the group is left, in the records and at the provider. */
async function nothingIsLeft(groups: Groups, making: Promise<unknown>): Promise<void> {
  await assert.rejects(making, (error) => isAgentPodError(error, 'conflict'))
  await settled()
  assert.deepEqual(groups.engine.groups.list(LOCAL), [])
  assert.deepEqual(existing(groups.engine), [])
  assert.deepEqual(groups.provider.existing, [])
}

test('GRP-5 a group that is destroyed before its sandboxes have records leaves nothing', async () => {
  const ready = Promise.withResolvers<void>()
  const ensure = async () => {
    await ready.promise
    return { root: { kind: 'host' } } as const
  }
  using groups = await Groups.open({ parts: { roots: { ensure } } })
  const making = groups.pair()
  making.catch(() => undefined)
  await settled()
  await groups.engine.groups.destroy('shop', LOCAL)
  ready.resolve()
  await nothingIsLeft(groups, making)
})

test('GRP-5 a group that is destroyed while its first member is created leaves nothing', async () => {
  using groups = await Groups.open()
  const release = groups.provider.hang('create')
  const making = groups.pair()
  making.catch(() => undefined)
  await settled()
  const destroyed = groups.engine.groups.destroy('shop', LOCAL)
  await settled()
  release()
  await destroyed
  await nothingIsLeft(groups, making)
})

test('GRP-5 a group that is destroyed while one of two unordered members has ended leaves nothing', async () => {
  using groups = await Groups.open()
  const release = groups.provider.hang('create')
  const making = groups.engine.groups.create(
    { name: 'shop', members: ['one', 'two'].map((name) => ({ name, sandbox: {} })) },
    LOCAL,
  )
  making.catch(() => undefined)
  await settled()
  const releaseDestroy = groups.provider.hang('destroy')
  const destroyed = groups.engine.groups.destroy('shop', LOCAL)
  await settled()
  release()
  await settled()
  assert.deepEqual(
    groups.engine.groups.list(LOCAL).map(({ group }) => group.state),
    ['destroying'],
  )
  releaseDestroy()
  await destroyed
  await nothingIsLeft(groups, making)
})

test('GRP-5 a main sandbox that could not be created does not end its group, also after a restart', async () => {
  using groups = await Groups.open()
  await groups.engine.groups.create(
    {
      name: 'shop',
      members: [
        { name: 'web', main: true },
        { name: 'db', sandbox: {} },
      ],
    },
    LOCAL,
  )
  const place = { group: 'shop', member: 'web' }
  groups.provider.fail('create', { times: 1 })
  await assert.rejects(groups.engine.sandboxes.create({ place }, LOCAL))
  for (const restart of [false, true]) {
    if (restart) await groups.open()
    await groups.clock.advance(SWEEP_MS)
    assert.equal(groups.record('db').state, 'running', `after a restart: ${restart}`)
  }
  const web = await groups.engine.sandboxes.create({ place }, LOCAL)
  // The control: a main sandbox that has run ends its group.
  await groups.engine.sandboxes.destroy(web.id, LOCAL)
  await groups.clock.advance(SWEEP_MS)
  assert.deepEqual(existing(groups.engine), [])
})

test('GRP-9 members live as long as the main one, whatever their own time', async () => {
  using groups = await Groups.open()
  await groups.pair({ ttlMs: 8 * TIME }, { ttlMs: TIME, idleMs: 20_000 })
  await groups.clock.advance(7 * TIME)
  assert.deepEqual(groups.states(), ['running', 'running'])
  await groups.engine.sandboxes.extend(groups.record('web').id, 5 * TIME, LOCAL)
  await groups.clock.advance(4 * TIME)
  assert.deepEqual(groups.states(), ['running', 'running'])
  await groups.clock.advance(TIME)
  assert.deepEqual(existing(groups.engine), [], 'the group ends with its main sandbox')
})

test('GRP-9 members of a main one that joins later, or without one, have the time of theirs', async () => {
  using groups = await Groups.open()
  const members = [
    { name: 'web', main: true },
    { name: 'db', sandbox: { lifetime: { ttlMs: TIME, idleMs: 20_000 } } },
  ]
  await groups.engine.groups.create({ name: 'shop', members }, LOCAL)
  await groups.engine.sandboxes.create(
    { place: { group: 'shop', member: 'web' }, lifetime: { ttlMs: 2 * TIME } },
    LOCAL,
  )
  await groups.clock.advance(TIME + 1000)
  assert.deepEqual(groups.states(), ['running', 'running'])
  await groups.engine.groups.create({ name: 'alone', members }, LOCAL)
  await groups.clock.advance(2 * TIME)
  assert.deepEqual(
    groups.engine.groups.list(LOCAL),
    [],
    'a group without a main sandbox ends with its last one',
  )
})

for (const [whenOver, state] of [
  ['pause', 'paused'],
  ['stop', 'stopped'],
] as const)
  test(`GRP-9 when the time of the main one is over (${whenOver}), the others are ${state} and come back`, async () => {
    using groups = await Groups.open({ provider: { graceMs: 60_000 } })
    await groups.pair({ ttlMs: 2 * TIME, whenOver }, { ttlMs: TIME })
    await groups.clock.advance(2 * TIME)
    assert.deepEqual(groups.states(), [state, state])
    await groups.clock.advance(10 * TIME)
    assert.deepEqual(groups.states(), [state, state])
    const web = groups.record('web').id
    await (state === 'paused'
      ? groups.engine.sandboxes.resume(web, LOCAL)
      : groups.engine.sandboxes.start(web, LOCAL))
    await settled()
    assert.deepEqual(groups.states(), ['running', 'running'])
  })

test('GRP-9 a member whose pause fails once is paused by the next sweep', async () => {
  using groups = await Groups.open()
  await groups.pair()
  const heal = groups.failPauseOf(groups.record('db').id)
  await groups.engine.sandboxes.pause(groups.record('web').id, LOCAL)
  await settled()
  heal()
  assert.deepEqual(groups.states(), ['paused', 'running'], 'the control: it failed')
  await groups.clock.advance(SWEEP_MS)
  assert.deepEqual(groups.states(), ['paused', 'paused'])
})

test('GRP-9 a server that was killed between two members is followed by one that finishes', async () => {
  using groups = await Groups.open()
  await groups.pair()
  const heal = groups.failPauseOf(groups.record('db').id)
  await groups.engine.sandboxes.pause(groups.record('web').id, LOCAL)
  await settled()
  assert.deepEqual(groups.states(), ['paused', 'running'], 'the control')
  heal()
  await groups.open()
  await settled()
  assert.deepEqual(groups.states(), ['paused', 'paused'])
})

test('GRP-9 a member that its user halted stays so, until the main one was halted and comes back', async () => {
  using groups = await Groups.open()
  await groups.pair({ ttlMs: TIME })
  const [web, db] = [groups.record('web').id, groups.record('db').id]
  const { sandboxes } = groups.engine
  for (const halt of ['pause', 'stop'] as const) {
    await sandboxes[halt](db, LOCAL)
    const state = groups.record('db').state
    await sandboxes.extend(web, 2 * TIME, LOCAL)
    await groups.clock.advance(SWEEP_MS)
    assert.equal(groups.record('db').state, state)
  }
  await sandboxes.stop(web, LOCAL)
  await settled()
  await sandboxes.start(web, LOCAL)
  await settled()
  assert.deepEqual(groups.states(), ['running', 'running'])
})

test('GRP-9 a comparison that waited uses the present record of the main one', async () => {
  using groups = await Groups.open()
  await groups.pair()
  const [web, db] = [groups.record('web').id, groups.record('db').id]
  const before = groups.provider.calls.length
  const release = groups.provider.hang('snapshot')
  const taking = groups.engine.groups.snapshot('shop', 'shot', LOCAL)
  await settled()
  // The snapshot of the database holds the lock of the group meanwhile.
  await groups.engine.sandboxes.resume(web, LOCAL, { ttlMs: 2 * TIME })
  await groups.engine.sandboxes.pause(web, LOCAL)
  release()
  await assert.rejects(
    taking,
    (error) => isAgentPodError(error, 'conflict') && error.reason === 'group.woken',
  )
  await settled()
  assert.deepEqual(groups.states(), ['running', 'running'])
  assert.deepEqual(groups.engine.snapshots.list(LOCAL), [])
  const changes = groups.provider.calls.slice(before).filter((one) => one.endsWith(` ${db}`))
  assert.deepEqual(changes, [`pause ${db}`, `resume ${db}`], 'only for the snapshot')
})

test('GRP-4 snapshots and forks of a group leave the deadlines, and are listed as each member’s newest', async () => {
  using groups = await Groups.open()
  await groups.pair({ ttlMs: 10 * TIME }, { ttlMs: 10 * TIME })
  await groups.engine.sandboxes.extend(groups.record('web').id, TIME, LOCAL)
  await groups.engine.sandboxes.extend(groups.record('db').id, TIME, LOCAL)
  const deadlines = (): number[] => [groups.record('web').deadlineAt, groups.record('db').deadlineAt]
  const before = deadlines()
  await groups.engine.groups.fork('shop', 'copy', LOCAL)
  const taken = await groups.engine.groups.snapshot('shop', 'shot', LOCAL)
  assert.deepEqual(deadlines(), before)
  for (const { member, snapshot } of taken) {
    const { tip, id } = groups.record(member as 'web' | 'db')
    assert.equal(tip, snapshot.id)
    const events = groups.engine.events.list(id, 0, LOCAL)
    assert.ok(
      events.some(({ type, data }) => type === 'snapshot.created' && data['snapshot'] === snapshot.id),
    )
  }
  groups.provider.fail('pause', { times: 1 })
  await assert.rejects(groups.engine.groups.pause('shop', LOCAL))
  assert.deepEqual(groups.states(), ['running', 'running'])
  assert.deepEqual(deadlines(), before, 'a pause that failed leaves them too')
})

test('GRP-4 a group with a running member that cannot be paused is not copied', async () => {
  using groups = await Groups.open({ provider: { freezes: false } })
  await groups.pair()
  for (const copy of [
    () => groups.engine.groups.snapshot('shop', 'shot', LOCAL),
    () => groups.engine.groups.fork('shop', 'copy', LOCAL),
  ])
    await assert.rejects(
      copy(),
      (error) => isAgentPodError(error, 'unsupported') && /^(web|db) runs on fake/.test(error.message),
    )
  await groups.engine.groups.stop('shop', LOCAL)
  assert.equal((await groups.engine.groups.snapshot('shop', 'shot', LOCAL)).length, 2, 'the control')
})

test('GP-03 GRP-11 a connection between members does not undo a pause or stop of the group', async () => {
  using groups = await Groups.open()
  await groups.engine.groups.create(
    { name: 'shop', members: ['web', 'db'].map((name) => ({ name, sandbox: {} })) },
    LOCAL,
  )
  const [web, db] = [groups.record('web').id, groups.record('db').id]
  await groups.engine.sandboxes.pause(db, LOCAL)
  assert.equal(await groups.dial(web, 'db'), 'port.closed')
  assert.deepEqual(
    groups.states(),
    ['running', 'running'],
    'the control: it wakes a member of a running group',
  )
  for (const [verb, state] of [
    ['pause', 'paused'],
    ['stop', 'stopped'],
  ] as const) {
    await groups.engine.groups.start('shop', LOCAL)
    // The members are halted at the same time; one of them still runs and connects.
    const release = groups.provider.hang(verb)
    const halting = groups.engine.groups[verb]('shop', LOCAL)
    await settled()
    const dials = [groups.dial(web, 'db'), groups.dial(db, 'web')]
    await settled()
    release()
    await halting
    assert.deepEqual(await Promise.all(dials), ['sandbox.state', 'sandbox.state'])
    assert.deepEqual(groups.states(), [state, state])
    assert.equal(await groups.dial(web, 'db'), 'sandbox.state', 'a late one')
  }
})

test('GRP-11 a connection does not wake a member whose main one is halted', async () => {
  using groups = await Groups.open()
  await groups.engine.groups.create(
    {
      name: 'shop',
      members: [
        { name: 'web', main: true, sandbox: {} },
        { name: 'db', sandbox: {} },
        { name: 'cache', sandbox: {} },
      ],
    },
    LOCAL,
  )
  await settled()
  await groups.engine.sandboxes.pause(groups.record('web').id, LOCAL)
  await settled()
  const { group } = groups.engine.groups.get('shop', LOCAL)
  const cache = group.members[2]?.sandbox ?? assert.fail('no cache')
  // Its user works in one of the others.
  await groups.engine.sandboxes.resume(cache, LOCAL)
  assert.equal(await groups.dial(cache, 'db'), 'sandbox.state')
  await groups.engine.sandboxes.resume(groups.record('web').id, LOCAL)
  assert.equal(await groups.dial(cache, 'db'), 'port.closed', 'the control')
})

test('a group is halted in order, also where a place between two members is empty', async () => {
  using groups = await Groups.open()
  await groups.engine.groups.create(
    {
      name: 'shop',
      members: [
        { name: 'db', sandbox: {} },
        { name: 'empty', after: ['db'] },
        { name: 'web', after: ['empty'], sandbox: {} },
      ],
    },
    LOCAL,
  )
  const [web, db] = [groups.record('web').id, groups.record('db').id]
  const before = groups.provider.calls.length
  await groups.engine.groups.pause('shop', LOCAL)
  assert.deepEqual(groups.provider.calls.slice(before), [`pause ${web}`, `pause ${db}`])
})

test('GP-05 GRP-12 a member accepts a limited number of connections, and gives back those that closed', async () => {
  using groups = await Groups.open()
  await groups.pair()
  const { id } = groups.record('web')
  groups.provider.inside(groups.record('db').id).echoPorts.add(1)
  const dial = (): Promise<Duplex> =>
    groups.engine.groups.dial({ from: id, member: 'db', port: 1 }, AbortSignal.timeout(5000))
  const streams: Duplex[] = []
  for (let n = 0; n < 256; n++) streams.push(await dial())
  await assert.rejects(dial(), (error) => isAgentPodError(error, 'resource_exhausted'))
  streams[0]?.on('error', () => undefined).destroy()
  await settled()
  await dial()
  await assert.rejects(dial(), (error) => isAgentPodError(error, 'resource_exhausted'))
})

test('GRP-13 a group that no main sandbox joins ends with the time of its members, or after an hour', async () => {
  await using groups = await Groups.open()
  const create = (name: string, members: readonly string[]): Promise<unknown> =>
    groups.engine.groups.create(
      {
        name,
        members: [
          { name: 'web', main: true },
          ...members.map((member) => ({
            name: member,
            sandbox: { lifetime: { ttlMs: 2 * TIME, whenOver: 'destroy' as const } },
          })),
        ],
      },
      LOCAL,
    )
  const names = (): string[] => groups.engine.groups.list(LOCAL).map(({ group }) => group.name)
  await create('members', ['db'])
  await create('empty', [])
  await groups.clock.advance(TIME)
  assert.deepEqual(names().sort(), ['empty', 'members'])
  await groups.clock.advance(2 * TIME)
  assert.deepEqual(names(), ['empty'])
  assert.deepEqual(existing(groups.engine), [])
  await groups.clock.advance(58 * TIME)
  assert.deepEqual(names(), [])
})
