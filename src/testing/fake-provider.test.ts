import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { newSandboxId, newSnapshotId, parseOwner } from '../core/id.ts'
import type { Handle, Provider } from '../core/provider.ts'
import { ContractContext, type ContractWorld, runCommand, runContractCase } from './contract-context.ts'
import { FakeClock } from './fake-clock.ts'
import { FakeProvider, type FakeProviderOptions } from './fake-provider.ts'
import { PROVIDER_CONTRACT } from './provider-contract.ts'
import { SeededRandom } from './seeded-random.ts'

const CALL = { timeoutMs: 1000 }

function fakeWorld(options: Omit<FakeProviderOptions, 'clock'> = {}): ContractWorld & {
  provider: FakeProvider
  clock: FakeClock
} {
  const clock = new FakeClock()
  const random = new SeededRandom(1)
  return {
    clock,
    provider: new FakeProvider({ clock, ...options }),
    root: {},
    owner: parseOwner('contract-one'),
    otherOwner: parseOwner('contract-two'),
    newId: () => newSandboxId(random),
    newSnapshotId: () => newSnapshotId(random),
    now: () => clock.now(),
    pass: (ms) => clock.advance(ms),
    graceMs: 1000,
  }
}

const VARIANTS: readonly { name: string; options: Omit<FakeProviderOptions, 'clock'> }[] = [
  { name: 'a fake provider where every limit holds', options: {} },
  { name: 'a fake provider without a freezer', options: { freezes: false } },
  {
    name: 'a fake provider with few limits, no layers and no volumes',
    options: { limits: { memory: 'none', cpus: 'soft' }, layers: false, lacks: ['volumes'] },
  },
]

for (const { name, options } of VARIANTS) {
  describe(`the contract on ${name}`, () => {
    for (const one of PROVIDER_CONTRACT) {
      test(one.name, async (t) => {
        const world = fakeWorld(options)
        const skipped = await runContractCase(one, world)
        if (skipped !== undefined) t.skip(skipped)
        assert.deepEqual(world.provider.existing, [])
      })
    }
  })
}

describe('faults of a fake provider', () => {
  test('a faulty call of the fake provider fails as often as configured, before it does anything', async () => {
    const { provider } = fakeWorld()
    const ctx = new ContractContext({ ...fakeWorld(), provider })
    provider.fail('create', { code: 'resource_exhausted', times: 2 })
    for (let i = 0; i < 2; i++) {
      await assert.rejects(ctx.create(), (error) => isAgentPodError(error, 'resource_exhausted'))
    }
    assert.deepEqual(provider.existing, [])
    await ctx.create()
    assert.equal(provider.existing.length, 1)
  })

  test('a lost answer of the fake provider keeps the effect of the call', async () => {
    const world = fakeWorld()
    const ctx = new ContractContext(world)
    world.provider.fail('create', { times: 1, isAfter: true })
    await assert.rejects(ctx.create(), (error) => isAgentPodError(error, 'unavailable'))
    assert.equal(world.provider.existing.length, 1)
  })

  test('a hanging call of the fake provider succeeds when it is released', async () => {
    const world = fakeWorld()
    const ctx = new ContractContext(world)
    const release = world.provider.hang('create')
    const pending = ctx.create()
    await world.clock.advance(1000)
    assert.deepEqual(world.provider.existing, [])
    release()
    await pending
    assert.equal(world.provider.existing.length, 1)
  })

  test('the fake provider reports an exit to listeners, once', async () => {
    const world = fakeWorld()
    const { id, guest } = await new ContractContext(world).started()
    const exits: unknown[] = []
    world.provider.onExit((exit) => exits.push(exit))
    world.provider.exit(id, { oomKilled: true })
    world.provider.exit(id, { expired: true })
    assert.deepEqual(exits, [{ sandboxId: id, oomKilled: true, expired: false }])
    await assert.rejects(guest.health(CALL), (error) => isAgentPodError(error, 'unavailable'))
  })
})

test('input reaches a fake command, and an open port echoes', async () => {
  const world = fakeWorld()
  const { id, guest } = await new ContractContext(world).started()
  const catting = runCommand(guest, 'cat')
  await new Promise((resolve) => setImmediate(resolve))
  const [process] = world.provider.inside(id).processes
  process?.write(Buffer.from('some '))
  process?.write(Buffer.from('words'))
  process?.closeStdin()
  assert.equal((await catting).stdout, 'some words')

  world.provider.inside(id).echoPorts.add(8080)
  const port = await guest.dial(8080, CALL)
  port.end('ping')
  const heard: Buffer[] = []
  for await (const chunk of port) heard.push(chunk as Buffer)
  assert.equal(Buffer.concat(heard).toString(), 'ping')
})

/** An object with some members replaced. */
function but<T extends object>(inner: T, changed: Partial<Record<keyof T, unknown>>): T {
  return new Proxy(inner, {
    get(target, key) {
      if (key in changed) return changed[key as keyof T]
      const value = Reflect.get(target, key)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

test('a guest may lack leases only if its provider enforces deadlines', async () => {
  const one = PROVIDER_CONTRACT.find(({ name }) => name.startsWith('the guest ends the sandbox'))
  assert.ok(one)
  const world = fakeWorld()
  const { provider: inner } = world
  const leaseless = { open: (handle: Handle) => but(inner.open(handle), { lease: undefined }) }
  const reason = await runContractCase(one, { ...world, provider: but<Provider>(inner, leaseless) })
  assert.match(reason ?? '', /^capability deadlines: /)
  const capabilities = async () => ({ ...(await inner.capabilities(CALL)), deadlines: 'guest' })
  const nobody = but<Provider>(inner, { ...leaseless, capabilities })
  await assert.rejects(runContractCase(one, { ...world, provider: nobody }), /the guest has leases/)
  assert.deepEqual(inner.existing, [])
})
