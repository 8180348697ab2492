import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LOCAL } from '../../core/principal.ts'
import { EngineFixture } from '../../engine/testing/engine-fixture.ts'
import { pauseWithMemory } from './pause.ts'
import { wakeUp } from './wake.ts'

async function pausedOn(
  savesMemory: boolean,
  o: { readonly isUnsavable?: boolean } = {},
): Promise<{ fixture: EngineFixture; savedBytes: number | undefined; state: string }> {
  const fixture = new EngineFixture({ provider: { savesMemory } })
  const engine = await fixture.open()
  const { id } = await engine.sandboxes.create({ name: 'box' }, LOCAL)
  if (o.isUnsavable) fixture.provider.fail('save', { times: 1, code: 'failed_precondition' })
  await pauseWithMemory(engine, id, LOCAL)
  const { state, savedBytes } = engine.sandboxes.get('box', LOCAL)
  return { fixture, state, savedBytes }
}

test('E2B’s pause writes the memory to disk where the provider can, and a connect continues it', async () => {
  const { fixture, state, savedBytes } = await pausedOn(true)
  using _ = fixture
  assert.deepEqual([state, savedBytes !== undefined], ['paused', true])
  const { id } = fixture.engine.sandboxes.get('box', LOCAL)
  const woken = await wakeUp(fixture.engine, id, LOCAL, { ttlMs: 60_000, memory: true })
  assert.deepEqual([woken.sandbox.state, woken.wasPaused], ['running', true])
  assert.ok(fixture.provider.calls.includes(`restore ${id}`))
})

test('E2B’s pause freezes the sandbox where the memory cannot be saved', async () => {
  for (const [savesMemory, isUnsavable] of [
    [false, false],
    [true, true],
  ] as const) {
    const { fixture, state, savedBytes } = await pausedOn(savesMemory, { isUnsavable })
    using _ = fixture
    assert.deepEqual([state, savedBytes], ['paused', undefined])
  }
})
