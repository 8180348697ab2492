// Every state that a crash may leave, as rows of a store that an earlier life wrote.

import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { DEFAULT_ENVIRONMENT } from '../../core/environment.ts'
import { isAgentPodError } from '../../core/error.ts'
import { parseOwner, parseSandboxId, type SandboxId } from '../../core/id.ts'
import type { State } from '../../core/lifecycle.ts'
import { DEFAULT_NETWORK } from '../../core/network.ts'
import { LOCAL } from '../../core/principal.ts'
import { DEFAULT_RESOURCES } from '../../core/resources.ts'
import { DEFAULT_LIFETIME } from '../../core/spec.ts'
import { type SandboxStore, sandboxStore } from '../../store/sandboxes.ts'
import type { FakeClock } from '../../testing/fake-clock.ts'
import type { FakeProvider } from '../../testing/fake-provider.ts'
import type { Engine } from '../engine.ts'
import { EngineFixture } from '../testing/engine-fixture.ts'

const CALL = { timeoutMs: 1000 }
const OWNER = parseOwner('sweep-test')
const ID = parseSandboxId('leftover1')
const SWEEP_MS = 3000

let fixture: EngineFixture
let store: SandboxStore
let clock: FakeClock
let provider: FakeProvider
let engine: Engine
beforeEach(() => {
  fixture = new EngineFixture({ parts: { owner: OWNER, tmpDir: '/nonexistent' } })
  clock = fixture.clock
  provider = fixture.provider
  store = sandboxStore(fixture.state)
})
afterEach(() => fixture[Symbol.dispose]())

async function restart(): Promise<void> {
  engine = await fixture.open()
}

async function exists(id: SandboxId = ID, owner = OWNER): Promise<void> {
  const plan = { sandboxId: id, owner, hostname: 'x', root: { kind: 'host' as const } }
  const deadlineAt = clock.now() + DEFAULT_LIFETIME.ttlMs
  await provider.create(
    { ...plan, resources: DEFAULT_RESOURCES, required: [], deadlineAt, whenOver: 'destroy', mounts: [] },
    CALL,
  )
}

function remembered(at: State, over: { id?: SandboxId; deadlineAt?: number; endedAt?: number } = {}): void {
  const id = over.id ?? ID
  const isStarted = at !== 'creating'
  store.insert(
    {
      id,
      owner: 'local',
      name: 'box',
      labels: {},
      provider: 'fake',
      isolation: 'container',
      state: at,
      spec: {
        environment: DEFAULT_ENVIRONMENT,
        resources: DEFAULT_RESOURCES,
        lifetime: DEFAULT_LIFETIME,
        network: DEFAULT_NETWORK,
      },
      link: undefined,
      limits: undefined,
      handle: isStarted ? { sandboxId: id, data: {} } : undefined,
      root: { kind: 'host' },
      createdAt: clock.now(),
      startedAt: isStarted ? clock.now() : undefined,
      deadlineAt: over.deadlineAt ?? clock.now() + DEFAULT_LIFETIME.ttlMs,
      endedAt: over.endedAt,
      ending: undefined,
      tip: undefined,
      forkedFrom: undefined,
      pausedAt: undefined,
      savedBytes: undefined,
    },
    undefined,
  )
}

const LEFT: readonly {
  name: string
  state: State
  isThere: boolean
  becomes: State
  reason?: string
  isEnded: boolean
}[] = [
  {
    name: 'creating, not made yet',
    state: 'creating',
    isThere: false,
    becomes: 'failed',
    reason: 'server.restarted',
    isEnded: true,
  },
  {
    name: 'creating, made already',
    state: 'creating',
    isThere: true,
    becomes: 'failed',
    reason: 'server.restarted',
    isEnded: true,
  },
  { name: 'running and there', state: 'running', isThere: true, becomes: 'running', isEnded: false },
  {
    name: 'running and gone',
    state: 'running',
    isThere: false,
    becomes: 'failed',
    reason: 'sandbox.lost',
    isEnded: true,
  },
  { name: 'destroying and there', state: 'destroying', isThere: true, becomes: 'destroyed', isEnded: true },
  { name: 'destroying and gone', state: 'destroying', isThere: false, becomes: 'destroyed', isEnded: true },
  { name: 'failed and there', state: 'failed', isThere: true, becomes: 'failed', isEnded: true },
  { name: 'failed and gone', state: 'failed', isThere: false, becomes: 'failed', isEnded: true },
]

for (const left of LEFT) {
  test(`a sandbox left ${left.name} is ${left.becomes} after a restart`, async () => {
    remembered(left.state)
    if (left.isThere) await exists()
    await restart()
    const record = engine.sandboxes.get(ID, LOCAL)
    assert.equal(record.state, left.becomes)
    assert.equal(record.ending?.reason, left.reason)
    assert.equal(record.endedAt !== undefined, left.isEnded)
    assert.deepEqual(store.get(ID), record)
    assert.deepEqual(provider.existing, left.isEnded ? [] : [ID])
    if (left.isEnded) assert.equal((await engine.sandboxes.create({ name: 'box' }, LOCAL)).state, 'running')
    else await engine.guests.connection('box', LOCAL).guest.health(CALL)
  })
}

test('a running sandbox whose deadline passed during a restart is destroyed as expired', async () => {
  await exists()
  remembered('running', { deadlineAt: clock.now() - 1 })
  await restart()
  assert.equal(engine.sandboxes.get(ID, LOCAL).state, 'destroyed')
  assert.equal(engine.sandboxes.get(ID, LOCAL).ending?.reason, 'sandbox.expired')
  assert.deepEqual(provider.existing, [])
})

test('a sandbox that expired while no server ran is expired and not lost', async () => {
  await exists()
  remembered('running')
  provider.exit(ID, { expired: true })
  await restart()
  assert.equal(engine.sandboxes.get(ID, LOCAL).ending?.reason, 'sandbox.expired')
})

test('an orphan of this server is destroyed, and another owner’s sandbox is left alone', async () => {
  const theirs = parseSandboxId('theirs1')
  await exists()
  await exists(theirs, parseOwner('somebody-else'))
  await restart()
  assert.deepEqual(provider.existing, [theirs])
})

test('a sandbox that exists although its record has ended is destroyed', async () => {
  remembered('destroyed', { endedAt: 1 })
  await exists()
  await restart()
  assert.deepEqual(provider.existing, [])
  assert.equal(engine.sandboxes.get(ID, LOCAL).endedAt, 1)
})

test('an adopted sandbox can be extended and destroyed, and expires, like a new one', async () => {
  await exists()
  remembered('running')
  await restart()
  await engine.sandboxes.extend('box', 10_000, LOCAL)
  await clock.advance(10_000)
  assert.equal(engine.sandboxes.get(ID, LOCAL).state, 'destroyed')
  assert.deepEqual(provider.existing, [])
})

test('a failed repair does not affect the others and is tried again', async () => {
  const other = parseSandboxId('other1')
  await exists()
  await exists(other)
  remembered('destroying')
  store.insert(
    { ...(store.get(ID) as NonNullable<ReturnType<typeof store.get>>), id: other, name: undefined },
    undefined,
  )
  provider.fail('destroy', { times: 1 })
  await restart()
  assert.equal(provider.existing.length, 1)
  await clock.advance(SWEEP_MS)
  assert.deepEqual(provider.existing, [])
  for (const id of [ID, other]) assert.equal(engine.sandboxes.get(id, LOCAL).state, 'destroyed')
})

test('BOX-7 while the provider does not answer at a start, no sandbox is called gone, and a later sweep adopts it', async () => {
  await exists()
  remembered('running')
  provider.fail('list', { times: 1 })
  await restart()
  assert.equal(store.get(ID)?.state, 'running')
  assert.throws(
    () => engine.guests.connection(ID, LOCAL),
    (error) => isAgentPodError(error, 'unavailable') && error.reason === 'provider.silent',
  )
  await clock.advance(SWEEP_MS)
  assert.ok(engine.guests.connection(ID, LOCAL))
})

test('a second restart changes nothing', async () => {
  remembered('creating')
  await exists()
  await restart()
  const first = engine.sandboxes.get(ID, LOCAL)
  await clock.advance(SWEEP_MS)
  await restart()
  assert.deepEqual(engine.sandboxes.get(ID, LOCAL), first)
})
