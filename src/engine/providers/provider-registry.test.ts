import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { parseOwner, parseSandboxId } from '../../core/id.ts'
import { DEFAULT_RESOURCES } from '../../core/resources.ts'
import { silentLog } from '../../telemetry/log.ts'
import { FakeClock, settled } from '../../testing/fake-clock.ts'
import { FakeProvider, type FakeProviderOptions } from '../../testing/fake-provider.ts'
import { type OptionalGroup, ProviderRegistry, type ProviderRegistryParts } from './provider-registry.ts'

const clock = new FakeClock()
const fake = (name: string, o: Partial<FakeProviderOptions> = {}): FakeProvider =>
  new FakeProvider({ clock, name, ...o })

function several(given: readonly FakeProvider[], o: Partial<ProviderRegistryParts> = {}): ProviderRegistry {
  return new ProviderRegistry({ providers: given, log: silentLog, clock, ...o })
}

test('a server needs at least one provider, unique provider names, and an existing default', () => {
  assert.throws(() => several([]), /needs a provider/)
  assert.throws(() => several([fake('one'), fake('one')]), /two providers are called one/)
  assert.throws(
    () => several([fake('one')], { defaultProvider: 'two' }),
    (error) => isAgentPodError(error, 'invalid_argument') && error.reason === 'provider.unknown',
  )
})

test('the first provider is the default, unless another one is named', () => {
  const given = [fake('one'), fake('two')]
  assert.equal(several(given).default.name, 'one')
  assert.equal(several(given, { defaultProvider: 'two' }).default.name, 'two')
})

test('the provider of a record is found, and its first use is reported once', () => {
  const providers = several([fake('one'), fake('two')])
  const told: string[] = []
  providers.onUsed = ({ name }) => told.push(name)
  for (const provider of ['two', 'two', 'one', 'two']) assert.equal(providers.of({ provider }).name, provider)
  assert.deepEqual(told, ['two', 'one'])
})

test('a record of a provider that the server was started without is unavailable, with a hint', () => {
  const providers = several([fake('one')])
  assert.equal(providers.has({ provider: 'gone' }), false)
  assert.throws(
    () => providers.of({ provider: 'gone' }),
    (error) =>
      isAgentPodError(error, 'unavailable') &&
      error.reason === 'provider.absent' &&
      /start the server with that provider/.test(error.hint ?? ''),
  )
})

const GROUPS: readonly [group: OptionalGroup, lacking: Partial<FakeProviderOptions>, reason: string][] = [
  ['pausing', { freezes: false }, 'pause.unsupported'],
  ['stopping', { lacks: ['stopping'] }, 'stop.unsupported'],
  ['snapshots', { lacks: ['snapshots'] }, 'snapshot.unsupported'],
  ['layers', { layers: false }, 'provider.layers'],
  ['host', { lacks: ['host'] }, 'provider.host'],
]
for (const [group, lacking, reason] of GROUPS) {
  test(`${group}: a provider without it is refused as unsupported, and the error names providers that have it`, () => {
    const providers = several([fake('poor', lacking), fake('rich'), fake('other')])
    assert.ok(providers.group({ provider: 'rich' }, group))
    assert.throws(
      () => providers.group({ provider: 'poor' }, group),
      (error) =>
        isAgentPodError(error, 'unsupported') &&
        error.reason === reason &&
        error.message.startsWith('the provider poor cannot ') &&
        /^these providers can: rich, other;/.test(error.hint ?? ''),
    )
  })
}

test('the error says so if no provider has an optional group', () => {
  assert.throws(
    () => several([fake('one'), fake('two')]).group({ provider: 'one' }, 'images'),
    (error) =>
      isAgentPodError(error, 'unsupported') && /no provider of this server can/.test(error.hint ?? ''),
  )
})

test('a provider that fails to close does not keep the others open', () => {
  const [one, two] = [fake('one'), fake('two')]
  let isClosed = false
  one.close = () => {
    throw new Error('stuck')
  }
  two.close = () => {
    isClosed = true
  }
  several([one, two]).close()
  assert.ok(isClosed)
})

test('used providers are remembered across restarts, and a failed write of that is ignored', () => {
  const kept = new Map<string, string>()
  const uses = {
    meta: (key: string) => kept.get(key),
    setMeta: (key: string, at: string) => kept.set(key, at),
  }
  const given = [fake('one'), fake('two')]
  const before = several(given, { uses })
  before.of({ provider: 'two' })
  assert.deepEqual(before.everUsed, ['two'])
  assert.deepEqual(several(given, { uses }).everUsed, ['two'])
  const full = several(given, {
    uses: {
      meta: () => undefined,
      setMeta: () => {
        throw new Error('the disk is full')
      },
    },
  })
  assert.equal(full.of({ provider: 'one' }).name, 'one')
  assert.deepEqual(full.everUsed, ['one'])
})

test('an abandoned create that cannot be undone marks the provider as suspect until a later sweep clears it', async () => {
  const provider = fake('one')
  const providers = several([provider])
  assert.equal(providers.suspicionOf(providers.default), 'none')
  const release = provider.hang('create')
  provider.fail('destroy')
  const deadlineAt = clock.now() + 60_000
  const plan = {
    sandboxId: parseSandboxId('late0001'),
    owner: parseOwner('providers-test'),
    hostname: 'late',
    root: { kind: 'host' },
    resources: DEFAULT_RESOURCES,
    required: [],
    deadlineAt,
    whenOver: 'destroy' as const,
    mounts: [],
  }
  await assert.rejects(providers.default.create(plan, { timeoutMs: 1 }), /did not finish create/)
  release()
  await settled()
  assert.equal(provider.existing.length, 1)
  assert.equal(providers.suspicionOf(providers.default), 'fresh')
  providers.clearSuspicion(providers.default, clock.now())
  assert.equal(providers.suspicionOf(providers.default), 'fresh')
  await clock.advance(10 * 60_000)
  assert.equal(providers.suspicionOf(providers.default), 'old')
  providers.clearSuspicion(providers.default, clock.now())
  assert.equal(providers.suspicionOf(providers.default), 'none')
  await clock.advance(0)
})
