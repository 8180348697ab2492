import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Isolation } from '../core/capability.ts'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import { silentLog } from '../telemetry/log.ts'
import { FakeClock, settled } from '../testing/fake-clock.ts'
import { FakeProvider, type FakeProviderOptions } from '../testing/fake-provider.ts'
import { place } from './place.ts'
import { Providers } from './providers.ts'

const clock = new FakeClock()

function fake(name: string, o: Partial<FakeProviderOptions> = {}): FakeProvider {
  return new FakeProvider({ clock, name, ...o })
}

function several(...given: readonly FakeProvider[]): Providers {
  return new Providers({ providers: given, log: silentLog, clock })
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
const leveled = (): Providers => several(...LEVELS.map(([name, isolation]) => fake(name, { isolation })))

test('where nobody names a provider, the default one makes the sandbox', async () => {
  const providers = several(fake('one'), fake('two'))
  assert.equal((await place(providers, {})).provider.name, 'one')
  assert.deepEqual(
    providers.used.map(({ name }) => name),
    ['one'],
  )
  const other = new Providers({
    providers: [fake('one'), fake('two')],
    defaultProvider: 'two',
    log: silentLog,
    clock,
  })
  assert.equal((await place(other, {})).provider.name, 'two')
})

test('a provider that is named makes it, with its isolation', async () => {
  const placed = await place(leveled(), { provider: 'machine' })
  assert.deepEqual([placed.provider.name, placed.isolation], ['machine', 'vm'])
})

test('an unknown provider is refused with the names of those that are there', async () => {
  const error = await refused(place(leveled(), { provider: 'nope' }), 'invalid_argument', 'provider.unknown')
  assert.match(error.hint ?? '', /shared, user-kernel, machine/)
})

for (const [isolation, name] of [
  ['container', 'shared'],
  ['gvisor', 'user-kernel'],
  ['vm', 'machine'],
] as const) {
  test(`the first provider that isolates by ${isolation} or better is chosen`, async () => {
    assert.equal((await place(leveled(), { isolation })).provider.name, name)
  })
}

test('a level that nobody offers is refused, and the error says what each offers', async () => {
  const providers = several(fake('one'), fake('two', { isolation: 'gvisor' }))
  const error = await refused(place(providers, { isolation: 'vm' }), 'unsupported', 'isolation.unavailable')
  assert.match(error.hint ?? '', /one offers container, two offers gvisor/)
  assert.deepEqual(providers.used, [])
})

test('a level that is none is refused', async () => {
  const wish = { isolation: 'lead' as Isolation }
  await refused(place(leveled(), wish), 'invalid_argument', 'isolation.unknown')
})

test('a provider that is named and isolates too little is refused, and the error names one that does', async () => {
  const wish = { provider: 'shared', isolation: 'vm' as const }
  const error = await refused(place(leveled(), wish), 'unsupported', 'isolation.unavailable')
  assert.match(error.message, /^shared does not isolate/)
  assert.match(error.hint ?? '', /--provider machine/)
})

test('what a sandbox begins with decides, and another provider that is named is refused', async () => {
  const bound = { provider: 'machine', what: 'the snapshot shot' }
  assert.equal((await place(leveled(), { bound })).provider.name, 'machine')
  assert.equal((await place(leveled(), { bound, provider: 'machine' })).provider.name, 'machine')
  const error = await refused(
    place(leveled(), { bound, provider: 'shared' }),
    'invalid_argument',
    'provider.other',
  )
  assert.match(error.message, /the snapshot shot is on machine/)
  assert.match(error.hint ?? '', /name machine/)
})

test('what a sandbox begins with is never taken to a provider that isolates better', async () => {
  const bound = { provider: 'shared', what: 'the snapshot shot' }
  await refused(place(leveled(), { bound, isolation: 'vm' }), 'unsupported', 'isolation.unavailable')
})

test('what lies on a provider that the server was started without is unavailable', async () => {
  const bound = { provider: 'gone', what: 'the snapshot shot' }
  await refused(place(leveled(), { bound }), 'unavailable', 'provider.absent')
})

test('a provider that is not ready is not replaced by another one', async () => {
  for (const wish of [{}, { provider: 'one' }, { isolation: 'container' as const }]) {
    const one = fake('one')
    one.fail('capabilities')
    await refused(place(several(one, fake('two')), wish), 'unavailable', 'fake.fault')
  }
})

test('one that fails is passed over where another one isolates enough', async () => {
  const broken = fake('broken', { isolation: 'vm' })
  broken.fail('capabilities')
  const providers = several(fake('one'), broken, fake('vm', { isolation: 'vm' }))
  assert.equal((await place(providers, { isolation: 'vm' })).provider.name, 'vm')
})

test('one that hangs keeps nobody waiting where one before it isolates enough', async () => {
  const silent = fake('silent', { isolation: 'vm' })
  const release = silent.hang('capabilities')
  const placing = place(several(fake('one'), fake('vm', { isolation: 'vm' }), silent), { isolation: 'vm' })
  const placed = await Promise.race([placing, settled()])
  release()
  assert.equal(placed?.provider.name, 'vm')
})

test('a level that has changed behind a provider is seen: nothing falls below what was asked for', async () => {
  const options: { isolation: Isolation } & FakeProviderOptions = { clock, name: 'one', isolation: 'gvisor' }
  const providers = several(new FakeProvider(options))
  assert.equal((await place(providers, { isolation: 'gvisor' })).isolation, 'gvisor')
  options.isolation = 'container'
  await refused(place(providers, { isolation: 'gvisor' }), 'unsupported', 'isolation.unavailable')
})
