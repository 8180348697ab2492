import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { newSandboxId, newSnapshotId, parseOwner } from '../../core/id.ts'
import type { Provider } from '../../core/provider.ts'
import { silentLog } from '../../telemetry/log.ts'
import { ContractContext, type ContractWorld, runContractCase } from '../../testing/contract-context.ts'
import { FakeClock, settled } from '../../testing/fake-clock.ts'
import { FakeProvider } from '../../testing/fake-provider.ts'
import { PROVIDER_CONTRACT } from '../../testing/provider-contract.ts'
import { SeededRandom } from '../../testing/seeded-random.ts'
import { guardedProvider } from './guarded-provider.ts'

const CALL = { timeoutMs: 1000 }

function guardedWorld(): { fake: FakeProvider; provider: Provider; world: ContractWorld } {
  const clock = new FakeClock()
  const random = new SeededRandom(2)
  const fake = new FakeProvider({ clock })
  const provider = guardedProvider(fake, { clock, log: silentLog })
  const world = {
    provider,
    root: {},
    owner: parseOwner('contract-one'),
    otherOwner: parseOwner('contract-two'),
    newId: () => newSandboxId(random),
    newSnapshotId: () => newSnapshotId(random),
    now: () => clock.now(),
    pass: (ms: number) => clock.advance(ms),
    graceMs: 1000,
  }
  return { fake, provider, world }
}

describe('the provider contract through the guard', () => {
  for (const one of PROVIDER_CONTRACT) {
    test(one.name, async (t) => {
      const { fake, world } = guardedWorld()
      const skipped = await runContractCase(one, world)
      if (skipped !== undefined) t.skip(skipped)
      assert.deepEqual(fake.existing, [])
    })
  }
})

test('a provider without layers has none behind the guard', () => {
  const clock = new FakeClock()
  const inner = new FakeProvider({ clock, layers: false })
  assert.equal(guardedProvider(inner, { clock, log: silentLog }).layers, undefined)
})

test('a provider call that hangs ends at its deadline', async () => {
  const { fake, provider, world } = guardedWorld()
  const release = fake.hang('inspect')
  await assert.rejects(
    provider.inspect(world.newId(), { timeoutMs: 10 }),
    (error) => isAgentPodError(error, 'deadline_exceeded') && error.reason === 'provider.timeout',
  )
  release()
})

test('a provider call is canceled if its caller gives up', async () => {
  const { fake, provider, world } = guardedWorld()
  const release = fake.hang('inspect')
  const signal = AbortSignal.timeout(5)
  await assert.rejects(provider.inspect(world.newId(), { timeoutMs: 1000, signal }), (error) =>
    isAgentPodError(error, 'canceled'),
  )
  release()
})

test('an unknown error of a provider becomes internal', async () => {
  const { fake, provider, world } = guardedWorld()
  fake.onCreate = () => {
    throw new TypeError('a bug of the provider')
  }
  const plan = new ContractContext(world).plan()
  await assert.rejects(provider.create(plan, CALL), (error) => isAgentPodError(error, 'internal'))
})

for (const how of ['its deadline passed', 'its caller gave up'] as const) {
  test(`a create that succeeds after ${how} is undone`, async () => {
    const { fake, provider, world } = guardedWorld()
    const plan = new ContractContext(world).plan()
    const release = fake.hang('create')
    const o =
      how === 'its deadline passed' ? { timeoutMs: 5 } : { timeoutMs: 1000, signal: AbortSignal.timeout(5) }
    await assert.rejects(provider.create(plan, o))
    assert.deepEqual(fake.existing, [])
    release()
    await settled()
    assert.ok(fake.calls.includes(`destroy ${plan.sandboxId}`))
    assert.deepEqual(fake.existing, [])
  })
}

test('a create that succeeds at the moment it is abandoned is undone', async () => {
  const { fake, provider, world } = guardedWorld()
  const plan = new ContractContext(world).plan()
  const controller = new AbortController()
  const release = fake.hang('create')
  controller.signal.addEventListener('abort', release)
  const pending = provider.create(plan, { timeoutMs: 1000, signal: controller.signal })
  await settled()
  controller.abort()
  await assert.rejects(pending)
  await settled()
  assert.deepEqual(fake.existing, [])
})

test('a create that succeeds in time is kept', async () => {
  const { fake, provider, world } = guardedWorld()
  const ctx = new ContractContext(world)
  const signal = new AbortController()
  const { handle } = await provider.create(ctx.plan(), { timeoutMs: 1000, signal: signal.signal })
  signal.abort()
  await settled()
  assert.deepEqual(fake.existing, [handle.sandboxId])
})
