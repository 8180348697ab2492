/** One engine with two providers: what one of them lacks, does not answer or has lost is nothing to the other. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../src/core/error.ts'
import type { LayerInfo } from '../src/core/snapshot.ts'
import type { Engine } from '../src/engine/engine.ts'
import { settled } from '../src/testing/fake-clock.ts'
import type { FakeProvider, FakeProviderOptions } from '../src/testing/fake-provider.ts'
import { SeededRandom } from '../src/testing/seeded-random.ts'
import { EngineLives } from './support/engine-lives.ts'

const SWEEP_MS = 3000
const SILENT = ['capabilities', 'create', 'inspect', 'list', 'stop', 'destroy', 'unsnapshot'] as const

let tmpDir: string
let lives: EngineLives
let one: FakeProvider
let two: FakeProvider

async function begin(options: Partial<FakeProviderOptions> = {}): Promise<Engine> {
  lives = new EngineLives({
    random: new SeededRandom(3),
    names: ['one', 'two'],
    options: { two: options },
    tmpDir,
  })
  const [first, second] = lives.providers
  assert.ok(first && second)
  one = first
  two = second
  return lives.begin()
}

beforeEach(() => {
  tmpDir = mkdtempSync(join(tmpdir(), 'agentpod-two-'))
})
afterEach(() => {
  lives[Symbol.dispose]()
  rmSync(tmpDir, { recursive: true, force: true })
})

/** Hangs every call; returns what lets them go on. */
function silence(provider: FakeProvider): () => void {
  const releases = SILENT.map((call) => provider.hang(call))
  return () => {
    for (const release of releases) release()
  }
}

function isError(error: unknown, code: ErrorCode, reason: string): boolean {
  assert.ok(isAgentPodError(error, code), String(error))
  assert.equal(error.reason, reason)
  return true
}

async function refused(work: Promise<unknown>, code: ErrorCode, reason: string): Promise<void> {
  await assert.rejects(work, (error) => isError(error, code, reason))
}

/** The answer, without the clock moving. */
async function atOnce<T>(work: Promise<T>): Promise<T> {
  const answer = await Promise.race([work, settled().then(() => undefined)])
  assert.ok(answer !== undefined, 'it is not answered at once')
  return answer
}

const REFUSALS = [
  ['a pause at the end', { freezes: false }, { lifetime: { whenOver: 'pause' } }, 'pause.unsupported'],
  ['a stop at the end', { lacks: ['stopping'] }, { lifetime: { whenOver: 'stop' } }, 'stop.unsupported'],
] as const
for (const [what, options, request, reason] of REFUSALS) {
  test(`${what} is refused on a provider without it, before a record or anything else exists`, async () => {
    const engine = await begin(options)
    await refused(engine.create({ provider: 'two', ...request }), 'unsupported', reason)
    assert.deepEqual(engine.list({ labels: {}, all: true }), [])
    assert.deepEqual(
      two.calls.filter((call) => call.startsWith('create')),
      [],
    )
    assert.equal((await engine.create({ provider: 'one', ...request })).provider, 'one')
  })
}

test('secrets are refused on a provider without a way out of ours', async () => {
  const engine = await begin({ lacks: ['egress'] })
  const request = { provider: 'two', network: { secrets: ['KEY'] } }
  await refused(engine.create(request), 'unsupported', 'secrets.unsupported')
  assert.deepEqual(engine.list({ labels: {}, all: true }), [])
})

test('a snapshot on an image cannot be exported, and one on the host base can', async () => {
  const engine = await begin()
  const plain = await engine.create({})
  await engine.snapshot(plain.id, { name: 'plain' })
  const archive = await engine.exportSnapshot('plain')
  archive.destroy()
  const { id } = await engine.create({ environment: { base: 'image', image: 'debian:13' } })
  await engine.snapshot(id, { name: 'shot' })
  await refused(engine.exportSnapshot('shot'), 'unsupported', 'snapshot.image')
})

test('a snapshot and a built environment of one provider are not used on the other', async () => {
  const engine = await begin()
  const { id } = await engine.create({})
  const snapshot = await engine.snapshot(id, { name: 'shot' })
  await engine.stop(id)
  const layer = { key: 'a'.repeat(64), base: { name: 'host' }, owners: ['local'], usedAt: 0 }
  await engine.keepLayer(id, layer as unknown as LayerInfo)
  await refused(
    engine.create({ snapshot: snapshot.id, provider: 'two' }),
    'invalid_argument',
    'provider.other',
  )
  const environment = { digest: layer.key }
  await refused(engine.create({ environment, provider: 'two' }), 'invalid_argument', 'provider.other')
  const extras = { environment: { extras: [layer.key] }, provider: 'two' }
  await refused(engine.create(extras), 'invalid_argument', 'environment.provider')
  assert.deepEqual(two.existing, [])
  assert.equal((await engine.create({ snapshot: 'shot' })).provider, 'one')
  assert.equal((await engine.create({ environment })).provider, 'one')
})

test('one idempotency key on two providers is one request, and the second one is refused', async () => {
  const engine = await begin()
  const first = await engine.create({ requestKey: 'key', provider: 'one' })
  assert.equal((await engine.create({ requestKey: 'key', provider: 'one' })).id, first.id)
  await refused(engine.create({ requestKey: 'key', provider: 'two' }), 'conflict', 'request_key.reused')
  assert.deepEqual(two.existing, [])
})

test('while one provider hangs, the other one’s sandboxes are made, end on time and are destroyed', async () => {
  const engine = await begin()
  const silent = await engine.create({ provider: 'two', lifetime: { ttlMs: 5000 } })
  const release = silence(two)
  const made = await atOnce(engine.create({ lifetime: { ttlMs: 5000 } }))
  const other = await atOnce(engine.create({}))
  await clock(5000)
  assert.equal(engine.get(made.id).state, 'destroyed')
  assert.equal((await atOnce(engine.destroy(other.id))).state, 'destroyed')
  assert.equal(engine.get(silent.id).endedAt, undefined, 'nothing of the silent one is taken for gone')
  release()
  await clock(2 * SWEEP_MS)
  assert.equal(engine.get(silent.id).ending?.reason, 'sandbox.expired')
  assert.deepEqual([one.existing, two.existing], [[], []])
})

const clock = (ms: number): Promise<void> => lives.clock.advance(ms)

test('a server starts while a provider hangs, and its sandboxes come back when it answers', async () => {
  const { id } = await (await begin()).create({ provider: 'two' })
  const own = await lives.engine.create({})
  lives.kill()
  const release = silence(two)
  const startedAt = lives.clock.now()
  const engine = await lives.begin()
  assert.ok(lives.clock.now() - startedAt <= 5000)
  assert.ok(engine.live(own.id))
  assert.throws(
    () => engine.live(id),
    (error) => isError(error, 'unavailable', 'provider.silent'),
  )
  assert.equal(engine.get(id).state, 'running')
  release()
  await clock(SWEEP_MS)
  assert.ok(engine.live(id))
})

test('a sandbox that is listed by both providers is no orphan of either', async () => {
  const engine = await begin()
  const { id } = await engine.create({})
  const second = await engine.create({ provider: 'two' })
  // Both reach one machine.
  const own = two.list.bind(two)
  two.list = async (owner, o) => [...(await one.list(owner, o)), ...(await own(owner, o))]
  const destroyed: string[] = []
  two.destroy = async (sandbox) => void destroyed.push(sandbox)
  await clock(3 * SWEEP_MS)
  assert.deepEqual(destroyed, [])
  assert.equal(engine.get(id).state, 'running')
  assert.equal(engine.get(second.id).state, 'running')
})

test('an orphan that could not be destroyed is, also where no record is left of its provider', async () => {
  const engine = await begin()
  const { id } = await engine.create({ provider: 'two' })
  lives.stored.sandboxes.update({ ...engine.get(id), state: 'destroyed', endedAt: 1 })
  lives.kill()
  const again = await lives.begin()
  two.fail('destroy', { times: 2 })
  assert.deepEqual(two.existing, [id])
  // The first use of the provider in this life.
  await again.destroy((await again.create({ provider: 'two' })).id).catch(() => undefined)
  await clock(4 * SWEEP_MS)
  assert.deepEqual(two.existing, [])
})

test('one that is lost on a provider that cannot stop has failed, and nothing is left of it', async () => {
  const engine = await begin({ lacks: ['stopping'] })
  const { id } = await engine.create({ provider: 'two', lifetime: { whenOver: 'pause' } })
  await engine.pause(id)
  two.exit(id)
  await clock(SWEEP_MS)
  assert.equal(engine.get(id).state, 'failed')
  assert.deepEqual(two.existing, [])
})

test('one that vanished is not stopping for ever', async () => {
  const engine = await begin()
  const { id } = await engine.create({ provider: 'two' })
  two.lose(id)
  await refused(engine.stop(id), 'not_found', 'sandbox.absent')
  await clock(SWEEP_MS)
  assert.equal(engine.get(id).state, 'failed')
  assert.equal(engine.get(id).ending?.reason, 'sandbox.lost')
})

test('clear destroys what it can and says what is left; the watch goes on, and a second one finishes', async () => {
  const engine = await begin()
  await engine.create({ name: 'here' })
  const there = await engine.create({ provider: 'two', name: 'there' })
  await engine.snapshot('here', { name: 'mine' })
  await engine.snapshot('there', { name: 'shot' })
  for (const call of SILENT) two.fail(call)
  await assert.rejects(engine.clear(), (error) => {
    isError(error, 'unavailable', 'clear.incomplete')
    assert.match(String(error), /1 sandbox \(there\) and 1 snapshot \(shot\) could not be removed from two/)
    assert.match(String(error), /Everything else is gone/)
    assert.ok(isAgentPodError(error) && /provider check two/.test(error.hint ?? ''))
    return true
  })
  assert.deepEqual([one.existing, one.kept], [[], []])
  assert.equal(engine.get(there.id).state, 'destroying')
  two.heal()
  await clock(SWEEP_MS)
  assert.deepEqual(two.existing, [], 'the sweep finishes what was asked for')
  await engine.clear()
  assert.deepEqual([two.existing, two.kept, engine.livingCount], [[], [], 0])
})

test('providers are asked to clear before they are closed', async () => {
  const engine = await begin()
  await engine.create({ provider: 'two' })
  const close = two.close.bind(two)
  two.close = () => {
    two.calls.push('close')
    close()
  }
  await engine.clear()
  assert.deepEqual(two.calls.slice(-2), ['clear', 'close'])
})

test('a provider that keeps something from an earlier life is cleared, too', async () => {
  const engine = await begin()
  await engine.destroy((await engine.create({ provider: 'two' })).id)
  lives.kill()
  await (await lives.begin()).clear()
  assert.equal(two.calls.at(-1), 'clear')
})

test('providers that cannot be listened to are swept', async () => {
  const engine = await begin()
  two.onExit = () => {
    throw new Error('no events here')
  }
  const { id } = await engine.create({ provider: 'two' })
  two.exit(id)
  await clock(SWEEP_MS)
  assert.equal(engine.get(id).state, 'failed')
})
