/**
 * One engine with two providers: a missing capability, an outage or a loss of one does not affect the other.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../../src/core/error.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { LayerInfo } from '../../src/core/snapshot.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { settled } from '../../src/testing/fake-clock.ts'
import type { FakeProvider, FakeProviderOptions } from '../../src/testing/fake-provider.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { EngineLives } from '../support/engine-lives.ts'

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

/** Makes every call hang; returns the function that releases them. */
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
  test(`PROV-3 ${what} is refused on a provider without it, before a record or anything else exists`, async () => {
    const engine = await begin(options)
    await refused(engine.sandboxes.create({ provider: 'two', ...request }, LOCAL), 'unsupported', reason)
    assert.deepEqual(engine.sandboxes.list({ labels: {}, all: true }, LOCAL), [])
    assert.deepEqual(
      two.calls.filter((call) => call.startsWith('create')),
      [],
    )
    assert.equal((await engine.sandboxes.create({ provider: 'one', ...request }, LOCAL)).provider, 'one')
  })
}

test('PROV-3 secrets are refused on a provider without egress control', async () => {
  const engine = await begin({ lacks: ['egress'] })
  const request = { provider: 'two', network: { secrets: ['KEY'] } }
  await refused(engine.sandboxes.create(request, LOCAL), 'unsupported', 'secrets.unsupported')
  assert.deepEqual(engine.sandboxes.list({ labels: {}, all: true }, LOCAL), [])
})

test('a snapshot on an image cannot be exported, and one on the host base can', async () => {
  const engine = await begin()
  const plain = await engine.sandboxes.create({}, LOCAL)
  await engine.snapshots.create(plain.id, { name: 'plain' }, LOCAL)
  const archive = await engine.snapshots.export('plain', LOCAL)
  archive.destroy()
  const { id } = await engine.sandboxes.create({ environment: { base: 'image', image: 'debian:13' } }, LOCAL)
  await engine.snapshots.create(id, { name: 'shot' }, LOCAL)
  await refused(engine.snapshots.export('shot', LOCAL), 'unsupported', 'snapshot.image')
})

test('a snapshot and a built environment of one provider are not used on the other', async () => {
  const engine = await begin()
  const { id } = await engine.sandboxes.create({}, LOCAL)
  const snapshot = await engine.snapshots.create(id, { name: 'shot' }, LOCAL)
  await engine.sandboxes.stop(id, LOCAL)
  const layer = { key: 'a'.repeat(64), base: { name: 'host' }, owners: ['local'], usedAt: 0 }
  await engine.layers.create(id, layer as unknown as LayerInfo)
  await refused(
    engine.sandboxes.create({ snapshot: snapshot.id, provider: 'two' }, LOCAL),
    'invalid_argument',
    'provider.other',
  )
  const environment = { digest: layer.key }
  await refused(
    engine.sandboxes.create({ environment, provider: 'two' }, LOCAL),
    'invalid_argument',
    'provider.other',
  )
  const extras = { environment: { extras: [layer.key] }, provider: 'two' }
  await refused(engine.sandboxes.create(extras, LOCAL), 'invalid_argument', 'environment.provider')
  assert.deepEqual(two.existing, [])
  assert.equal((await engine.sandboxes.create({ snapshot: 'shot' }, LOCAL)).provider, 'one')
  assert.equal((await engine.sandboxes.create({ environment }, LOCAL)).provider, 'one')
})

test('one idempotency key on two providers is one request, and the second one is refused', async () => {
  const engine = await begin()
  const first = await engine.sandboxes.create({ requestKey: 'key', provider: 'one' }, LOCAL)
  assert.equal((await engine.sandboxes.create({ requestKey: 'key', provider: 'one' }, LOCAL)).id, first.id)
  await refused(
    engine.sandboxes.create({ requestKey: 'key', provider: 'two' }, LOCAL),
    'conflict',
    'request_key.reused',
  )
  assert.deepEqual(two.existing, [])
})

test('PROV-1 while one provider hangs, the other’s sandboxes are created, end on time and are destroyed', async () => {
  const engine = await begin()
  const silent = await engine.sandboxes.create({ provider: 'two', lifetime: { ttlMs: 5000 } }, LOCAL)
  const release = silence(two)
  const made = await atOnce(engine.sandboxes.create({ lifetime: { ttlMs: 5000 } }, LOCAL))
  const other = await atOnce(engine.sandboxes.create({}, LOCAL))
  await clock(5000)
  assert.equal(engine.sandboxes.get(made.id, LOCAL).state, 'destroyed')
  assert.equal((await atOnce(engine.sandboxes.destroy(other.id, LOCAL))).state, 'destroyed')
  assert.equal(
    engine.sandboxes.get(silent.id, LOCAL).endedAt,
    undefined,
    'nothing of the silent one is taken for gone',
  )
  release()
  await clock(2 * SWEEP_MS)
  assert.equal(engine.sandboxes.get(silent.id, LOCAL).ending?.reason, 'sandbox.expired')
  assert.deepEqual([one.existing, two.existing], [[], []])
})

const clock = (ms: number): Promise<void> => lives.clock.advance(ms)

test('PROV-1 a server starts while a provider hangs, and its sandboxes come back when it answers', async () => {
  const { id } = await (await begin()).sandboxes.create({ provider: 'two' }, LOCAL)
  const own = await lives.engine.sandboxes.create({}, LOCAL)
  lives.kill()
  const release = silence(two)
  const startedAt = lives.clock.now()
  const engine = await lives.begin()
  assert.ok(lives.clock.now() - startedAt <= 5000)
  assert.ok(engine.guests.connection(own.id, LOCAL))
  assert.throws(
    () => engine.guests.connection(id, LOCAL),
    (error) => isError(error, 'unavailable', 'provider.silent'),
  )
  assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
  release()
  await clock(SWEEP_MS)
  assert.ok(engine.guests.connection(id, LOCAL))
})

test('a sandbox that both providers list is an orphan of neither', async () => {
  const engine = await begin()
  const { id } = await engine.sandboxes.create({}, LOCAL)
  const second = await engine.sandboxes.create({ provider: 'two' }, LOCAL)
  // Both reach one machine.
  const own = two.list.bind(two)
  two.list = async (owner, o) => [...(await one.list(owner, o)), ...(await own(owner, o))]
  const destroyed: string[] = []
  two.destroy = async (sandbox) => void destroyed.push(sandbox)
  await clock(3 * SWEEP_MS)
  assert.deepEqual(destroyed, [])
  assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
  assert.equal(engine.sandboxes.get(second.id, LOCAL).state, 'running')
})

test('an orphan that could not be destroyed is destroyed later, even without a record of its provider', async () => {
  const engine = await begin()
  const { id } = await engine.sandboxes.create({ provider: 'two' }, LOCAL)
  const before = engine.sandboxes.get(id, LOCAL)
  lives.stored.sandboxes.update({ ...before, state: 'destroyed', endedAt: 1 }, before)
  lives.kill()
  const again = await lives.begin()
  two.fail('destroy', { times: 2 })
  assert.deepEqual(two.existing, [id])
  // The first use of the provider in this life.
  await again.sandboxes
    .destroy((await again.sandboxes.create({ provider: 'two' }, LOCAL)).id, LOCAL)
    .catch(() => undefined)
  await clock(4 * SWEEP_MS)
  assert.deepEqual(two.existing, [])
})

test('a sandbox that is lost on a provider that cannot stop has failed, and leaves nothing', async () => {
  const engine = await begin({ lacks: ['stopping'] })
  const { id } = await engine.sandboxes.create({ provider: 'two', lifetime: { whenOver: 'pause' } }, LOCAL)
  await engine.sandboxes.pause(id, LOCAL)
  two.exit(id)
  await clock(SWEEP_MS)
  assert.equal(engine.sandboxes.get(id, LOCAL).state, 'failed')
  assert.deepEqual(two.existing, [])
})

test('a sandbox that vanished does not stay in stopping', async () => {
  const engine = await begin()
  const { id } = await engine.sandboxes.create({ provider: 'two' }, LOCAL)
  two.lose(id)
  await refused(engine.sandboxes.stop(id, LOCAL), 'not_found', 'sandbox.absent')
  await clock(SWEEP_MS)
  assert.equal(engine.sandboxes.get(id, LOCAL).state, 'failed')
  assert.equal(engine.sandboxes.get(id, LOCAL).ending?.reason, 'sandbox.lost')
})

test('clear destroys what it can and says what is left; the watch continues, and a second clear finishes', async () => {
  const engine = await begin()
  await engine.sandboxes.create({ name: 'here' }, LOCAL)
  const there = await engine.sandboxes.create({ provider: 'two', name: 'there' }, LOCAL)
  await engine.snapshots.create('here', { name: 'mine' }, LOCAL)
  await engine.snapshots.create('there', { name: 'shot' }, LOCAL)
  for (const call of SILENT) two.fail(call)
  await assert.rejects(engine.destroyAll(), (error) => {
    isError(error, 'unavailable', 'clear.incomplete')
    assert.match(String(error), /1 sandbox \(there\) and 1 snapshot \(shot\) could not be removed from two/)
    assert.match(String(error), /Everything else was removed/)
    assert.ok(isAgentPodError(error) && /provider check two/.test(error.hint ?? ''))
    return true
  })
  assert.deepEqual([one.existing, one.kept], [[], []])
  assert.equal(engine.sandboxes.get(there.id, LOCAL).state, 'destroying')
  two.heal()
  await clock(SWEEP_MS)
  assert.deepEqual(two.existing, [], 'the sweep finishes what was asked for')
  await engine.destroyAll()
  assert.deepEqual([two.existing, two.kept, engine.usage.count], [[], [], 0])
})

test('providers are asked to clear before they are closed', async () => {
  const engine = await begin()
  await engine.sandboxes.create({ provider: 'two' }, LOCAL)
  const close = two.close.bind(two)
  two.close = () => {
    two.calls.push('close')
    close()
  }
  await engine.destroyAll()
  assert.deepEqual(two.calls.slice(-2), ['clear', 'close'])
})

test('a provider that keeps resources from an earlier server is cleared too', async () => {
  const engine = await begin()
  await engine.sandboxes.destroy((await engine.sandboxes.create({ provider: 'two' }, LOCAL)).id, LOCAL)
  lives.kill()
  await (await lives.begin()).destroyAll()
  assert.equal(two.calls.at(-1), 'clear')
})

test('providers without an event stream are swept', async () => {
  const engine = await begin()
  two.onExit = () => {
    throw new Error('no events here')
  }
  const { id } = await engine.sandboxes.create({ provider: 'two' }, LOCAL)
  two.exit(id)
  await clock(SWEEP_MS)
  assert.equal(engine.sandboxes.get(id, LOCAL).state, 'failed')
})
