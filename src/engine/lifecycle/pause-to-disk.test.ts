/** Pausing to disk, on a provider in memory. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LOCAL } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { EngineFixture } from '../testing/engine-fixture.ts'

const MIB = 1024 * 1024
const PROVIDER = { savesMemory: true }

async function opened(o: { toDiskAfterMs?: number } = {}): Promise<{ fixture: EngineFixture; box: Sandbox }> {
  const fixture = new EngineFixture({ provider: PROVIDER })
  const engine = await fixture.open()
  const box = await engine.sandboxes.create({ name: 'box', lifetime: { ttlMs: 60_000, ...o } }, LOCAL)
  return { fixture, box }
}

test('STATE-15 a sandbox paused to disk says so in its record, survives a reboot, and is resumed by a call', async () => {
  const { fixture, box } = await opened()
  using _ = fixture
  const { ended } = fixture.engine.guests.connection(box.id, LOCAL)
  const saved = await fixture.engine.sandboxes.pause('box', LOCAL, { toDisk: true })
  assert.deepEqual([saved.state, saved.savedBytes, saved.pausedAt], ['paused', MIB, fixture.clock.now()])
  assert.ok(ended.signal.aborted, 'streams are cut')
  assert.deepEqual(await fixture.engine.sandboxes.pause('box', LOCAL, { toDisk: true }), saved)
  assert.deepEqual(await fixture.engine.sandboxes.pause('box', LOCAL), saved)
  fixture.provider.reboot()
  const engine = await fixture.open()
  assert.equal(engine.sandboxes.get('box', LOCAL).savedBytes, MIB)
  await fixture.clock.advance(3_600_000)
  assert.ok(await engine.guests.wake('box', LOCAL))
  const resumed = engine.sandboxes.get('box', LOCAL)
  assert.deepEqual(
    [resumed.state, resumed.savedBytes, resumed.pausedAt, resumed.deadlineAt],
    ['running', undefined, undefined, fixture.clock.now() + 60_000],
  )
  assert.deepEqual(resumed.link?.placeholders, box.link?.placeholders)
})

test('STATE-15 a sandbox that is frozen already is saved too, and stays frozen if that fails', async () => {
  const { fixture } = await opened()
  using _ = fixture
  const { sandboxes } = fixture.engine
  await sandboxes.pause('box', LOCAL)
  fixture.provider.fail('save', { times: 1, code: 'resource_exhausted' })
  await assert.rejects(sandboxes.pause('box', LOCAL, { toDisk: true }), { code: 'resource_exhausted' })
  assert.deepEqual(
    [sandboxes.get('box', LOCAL).state, sandboxes.get('box', LOCAL).savedBytes],
    ['paused', undefined],
  )
  assert.equal((await sandboxes.pause('box', LOCAL, { toDisk: true })).savedBytes, MIB)
  assert.equal((await sandboxes.stop('box', LOCAL)).savedBytes, undefined)
})

test('STATE-15 a failed save leaves a running sandbox, and a failed resume a saved one', async () => {
  const { fixture, box } = await opened()
  using _ = fixture
  const { sandboxes, guests } = fixture.engine
  fixture.provider.fail('save', { times: 1, code: 'failed_precondition' })
  await assert.rejects(sandboxes.pause('box', LOCAL, { toDisk: true }), { code: 'failed_precondition' })
  assert.equal(sandboxes.get('box', LOCAL).state, 'running')
  guests.connection(box.id, LOCAL)
  await sandboxes.pause('box', LOCAL, { toDisk: true })
  fixture.provider.fail('restore', { times: 1, code: 'data_loss' })
  await assert.rejects(sandboxes.resume('box', LOCAL), { code: 'data_loss' })
  const { state, savedBytes } = sandboxes.get('box', LOCAL)
  assert.deepEqual([state, savedBytes], ['paused', MIB])
  assert.equal((await sandboxes.resume('box', LOCAL)).state, 'running')
})

test('STATE-15 a save or resume whose answer is lost is found by the sweep', async () => {
  const { fixture } = await opened()
  using _ = fixture
  const { sandboxes, guests } = fixture.engine
  fixture.provider.fail('save', { times: 1, isAfter: true })
  await assert.rejects(sandboxes.pause('box', LOCAL, { toDisk: true }))
  await fixture.clock.advance(60_000)
  assert.deepEqual(
    [sandboxes.get('box', LOCAL).state, sandboxes.get('box', LOCAL).savedBytes],
    ['paused', MIB],
  )
  fixture.provider.fail('restore', { times: 1, isAfter: true })
  await assert.rejects(sandboxes.resume('box', LOCAL))
  await fixture.clock.advance(30_000)
  assert.equal(sandboxes.get('box', LOCAL).state, 'running')
  assert.ok(await guests.wake('box', LOCAL))
})

test('STATE-15 a paused sandbox is saved after the time that its lifetime names, and not tried again at once', async () => {
  const { fixture } = await opened({ toDiskAfterMs: 120_000 })
  using _ = fixture
  const { sandboxes } = fixture.engine
  const saves = (): number => fixture.provider.calls.filter((call) => call.startsWith('save ')).length
  await sandboxes.pause('box', LOCAL)
  await fixture.clock.advance(100_000)
  assert.equal(saves(), 0)
  fixture.provider.fail('save', { times: 1, code: 'failed_precondition' })
  await fixture.clock.advance(60_000)
  await fixture.clock.advance(60_000)
  assert.equal(saves(), 1, 'it failed')
  assert.equal(sandboxes.get('box', LOCAL).savedBytes, undefined)
  await fixture.clock.advance(11 * 60_000)
  assert.equal(sandboxes.get('box', LOCAL).savedBytes, MIB)
})

test('STATE-15 where the provider cannot save memory, a pause to disk is refused, and the lifetime only pauses', async () => {
  using fixture = new EngineFixture()
  const { sandboxes } = await fixture.open()
  await sandboxes.create({ name: 'box', lifetime: { toDiskAfterMs: 0 } }, LOCAL)
  await assert.rejects(sandboxes.pause('box', LOCAL, { toDisk: true }), {
    reason: 'pause.to_disk_unsupported',
  })
  assert.equal(sandboxes.get('box', LOCAL).state, 'running')
  await sandboxes.pause('box', LOCAL)
  await fixture.clock.advance(60_000)
  assert.deepEqual(
    [sandboxes.get('box', LOCAL).state, sandboxes.get('box', LOCAL).savedBytes],
    ['paused', undefined],
  )
  await assert.rejects(sandboxes.create({ lifetime: { toDiskAfterMs: -1 } }, LOCAL), {
    reason: 'lifetime.to_disk_after',
  })
})
