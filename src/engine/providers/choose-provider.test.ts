import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Isolation } from '../../core/capability.ts'
import { type ErrorCode, isAgentPodError } from '../../core/error.ts'
import { silentLog } from '../../telemetry/log.ts'
import { FakeClock, settled } from '../../testing/fake-clock.ts'
import { FakeProvider, type FakeProviderOptions } from '../../testing/fake-provider.ts'
import { chooseProvider } from './choose-provider.ts'
import { ProviderRegistry } from './provider-registry.ts'

const clock = new FakeClock()

function fake(name: string, o: Partial<FakeProviderOptions> = {}): FakeProvider {
  return new FakeProvider({ clock, name, ...o })
}

function several(...given: readonly FakeProvider[]): ProviderRegistry {
  return new ProviderRegistry({ providers: given, log: silentLog, clock })
}

/** The error, which has the code and the reason. */
async function refused(
  work: Promise<unknown> | (() => unknown),
  code: ErrorCode,
  reason: string,
): Promise<{ message: string; hint: string | undefined }> {
  try {
    await (typeof work === 'function' ? work() : work)
  } catch (error) {
    assert.ok(isAgentPodError(error, code), String(error))
    assert.equal(error.reason, reason)
    return error
  }
  throw new assert.AssertionError({ message: `nothing was refused as ${reason}` })
}

const LEVELS: readonly [name: string, isolation: Isolation][] = [
  ['shared', 'container'],
  ['user-kernel', 'gvisor'],
  ['machine', 'vm'],
]
const leveled = (): ProviderRegistry =>
  several(...LEVELS.map(([name, isolation]) => fake(name, { isolation })))

test('without a named provider the default one makes the sandbox', async () => {
  const providers = several(fake('one'), fake('two'))
  assert.equal((await chooseProvider(providers, {})).provider.name, 'one')
  assert.deepEqual(
    providers.used.map(({ name }) => name),
    ['one'],
  )
  const other = new ProviderRegistry({
    providers: [fake('one'), fake('two')],
    defaultProvider: 'two',
    log: silentLog,
    clock,
  })
  assert.equal((await chooseProvider(other, {})).provider.name, 'two')
})

test('a named provider makes the sandbox, with its isolation', async () => {
  const placed = await chooseProvider(leveled(), { provider: 'machine' })
  assert.deepEqual([placed.provider.name, placed.isolation], ['machine', 'vm'])
})

test('PROV-3 an unknown provider is refused with the names of those that exist', async () => {
  const error = await refused(
    chooseProvider(leveled(), { provider: 'nope' }),
    'invalid_argument',
    'provider.unknown',
  )
  assert.match(error.hint ?? '', /shared, user-kernel, machine/)
})

for (const [isolation, name] of [
  ['container', 'shared'],
  ['gvisor', 'user-kernel'],
  ['vm', 'machine'],
] as const) {
  test(`PROV-4 the first provider that isolates by ${isolation} or better is chosen`, async () => {
    assert.equal((await chooseProvider(leveled(), { isolation })).provider.name, name)
  })
}

test('PROV-3 a level that no provider offers is refused, and the error says what each offers', async () => {
  const providers = several(fake('one'), fake('two', { isolation: 'gvisor' }))
  const error = await refused(
    chooseProvider(providers, { isolation: 'vm' }),
    'unsupported',
    'isolation.unavailable',
  )
  assert.match(error.hint ?? '', /one offers container, two offers gvisor/)
  assert.deepEqual(providers.used, [])
})

test('an unknown isolation level is refused', async () => {
  const wish = { isolation: 'lead' as Isolation }
  await refused(chooseProvider(leveled(), wish), 'invalid_argument', 'isolation.unknown')
})

test('PROV-3 PROV-4 a named provider that isolates too little is refused, and the error names one that does', async () => {
  const wish = { provider: 'shared', isolation: 'vm' as const }
  const error = await refused(chooseProvider(leveled(), wish), 'unsupported', 'isolation.unavailable')
  assert.match(error.message, /^the provider shared does not offer isolation vm$/)
  assert.match(error.hint ?? '', /--provider machine/)
})

test('a snapshot decides the provider of its sandboxes, and naming another one is refused', async () => {
  const bound = { provider: 'machine', what: 'the snapshot shot' }
  assert.equal((await chooseProvider(leveled(), { bound })).provider.name, 'machine')
  assert.equal((await chooseProvider(leveled(), { bound, provider: 'machine' })).provider.name, 'machine')
  const error = await refused(
    chooseProvider(leveled(), { bound, provider: 'shared' }),
    'invalid_argument',
    'provider.other',
  )
  assert.match(error.message, /the snapshot shot is on the provider machine/)
  assert.match(error.hint ?? '', /use machine/)
})

test('a snapshot is never moved to a provider that isolates better', async () => {
  const bound = { provider: 'shared', what: 'the snapshot shot' }
  await refused(chooseProvider(leveled(), { bound, isolation: 'vm' }), 'unsupported', 'isolation.unavailable')
})

test('a snapshot of a provider that the server was started without is unavailable', async () => {
  const bound = { provider: 'gone', what: 'the snapshot shot' }
  await refused(chooseProvider(leveled(), { bound }), 'unavailable', 'provider.absent')
})

test('a default provider that is not ready is not replaced by another one', async () => {
  for (const wish of [{}, { provider: 'one' }, { isolation: 'container' as const }]) {
    const one = fake('one')
    one.fail('capabilities')
    await refused(chooseProvider(several(one, fake('two')), wish), 'unavailable', 'fake.fault')
  }
})

test('a failing provider is skipped if another one isolates enough', async () => {
  const broken = fake('broken', { isolation: 'vm' })
  broken.fail('capabilities')
  const providers = several(fake('one'), broken, fake('vm', { isolation: 'vm' }))
  assert.equal((await chooseProvider(providers, { isolation: 'vm' })).provider.name, 'vm')
})

test('a hanging provider does not delay the choice of an earlier one that isolates enough', async () => {
  const silent = fake('silent', { isolation: 'vm' })
  const release = silent.hang('capabilities')
  const placing = chooseProvider(several(fake('one'), fake('vm', { isolation: 'vm' }), silent), {
    isolation: 'vm',
  })
  const placed = await Promise.race([placing, settled()])
  release()
  assert.equal(placed?.provider.name, 'vm')
})

test('PROV-4 a level that has changed behind a provider is noticed: no sandbox gets less than was asked for', async () => {
  const options: { isolation: Isolation } & FakeProviderOptions = { clock, name: 'one', isolation: 'gvisor' }
  const providers = several(new FakeProvider(options))
  assert.equal((await chooseProvider(providers, { isolation: 'gvisor' })).isolation, 'gvisor')
  options.isolation = 'container'
  await refused(chooseProvider(providers, { isolation: 'gvisor' }), 'unsupported', 'isolation.unavailable')
})
