import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { LOCAL, type Principal } from '../../core/principal.ts'
import { volumeStore } from '../../store/volumes.ts'
import { settled } from '../../testing/fake-clock.ts'
import { FakeProvider } from '../../testing/fake-provider.ts'
import type { Engine } from '../engine.ts'
import { EngineFixture } from '../testing/engine-fixture.ts'

const SWEEP_MS = 3000
const MINE: Principal = { owner: 'key-mine', isAdmin: false }
const THEIRS: Principal = { owner: 'key-theirs', isAdmin: false }

let fixture: EngineFixture
let engine: Engine
let provider: FakeProvider

beforeEach(async () => {
  fixture = new EngineFixture()
  provider = fixture.provider
  engine = await fixture.open()
})
afterEach(() => fixture[Symbol.dispose]())

function fails(work: () => unknown, code: ErrorCode, reason: string): Promise<void> {
  return assert.rejects(
    async () => work(),
    (error) => {
      assert.ok(isAgentPodError(error, code), String(error))
      assert.equal(error.reason, reason)
      return true
    },
  )
}

const states = (): string[] =>
  volumeStore(fixture.state)
    .all()
    .map(({ name, state }) => `${name} ${state}`)
    .sort()
const write = (id: SandboxId, path: string, text: string): unknown =>
  provider.inside(id).files.set(path, Buffer.from(text))
const read = (id: SandboxId, path: string): string | undefined =>
  provider.inside(id).files.get(path)?.toString()

test('VOL-1 a volume outlives its sandbox and the server', async () => {
  const { volume } = await engine.volumes.create({ name: 'data', sizeMib: 64 }, LOCAL)
  assert.deepEqual([volume.state, volume.limit], ['ready', { level: 'enforced' }])
  const mounted = [{ volume: 'data', path: '/data' }]
  const first = await engine.sandboxes.create({ volumes: mounted }, LOCAL)
  write(first.id, '/data/file', 'kept')
  await engine.sandboxes.destroy(first.id, LOCAL)
  engine = await fixture.open()
  const second = await engine.sandboxes.create({ volumes: [{ volume: volume.id, path: '/other' }] }, LOCAL)
  assert.equal(read(second.id, '/other/file'), 'kept')
  const { usedBytes, sandboxes } = await engine.volumes.get('data', LOCAL)
  assert.deepEqual([usedBytes, sandboxes], [4, [second.id]])
})

test('VOL-2 stop and start, and a new server, keep the volumes of a sandbox', async () => {
  await engine.volumes.create({ name: 'data' }, LOCAL)
  const volumes = [{ volume: 'data', path: '/data', readOnly: true }]
  const { id } = await engine.sandboxes.create({ volumes }, LOCAL)
  await engine.sandboxes.stop(id, LOCAL)
  engine = await fixture.open()
  let mounts: unknown
  const start = provider.stopping?.start
  assert.ok(provider.stopping && start)
  Object.assign(provider.stopping, {
    start: (plan: Parameters<typeof start>[0], o: Parameters<typeof start>[1]) => {
      mounts = plan.mounts
      return start(plan, o)
    },
  })
  const started = await engine.sandboxes.start(id, LOCAL)
  const [{ volume } = { volume: '' }] = started.spec.volumes ?? []
  assert.deepEqual(mounts, [{ kind: 'volume', id: volume, path: '/data', isReadOnly: true }])
})

test('VOL-3 a volume is not removed while a sandbox that is running, paused or stopped has it', async () => {
  await engine.volumes.create({ name: 'data' }, LOCAL)
  const { id } = await engine.sandboxes.create(
    { name: 'box', volumes: [{ volume: 'data', path: '/data' }] },
    LOCAL,
  )
  const refused = (): Promise<void> =>
    assert.rejects(engine.volumes.remove('data', LOCAL), (error) => {
      assert.ok(isAgentPodError(error, 'conflict'))
      assert.equal(error.reason, 'volume.used')
      assert.match(error.message, /box/)
      assert.match(error.hint ?? '', /agentpod destroy box/)
      return true
    })
  await refused()
  await engine.sandboxes.pause(id, LOCAL)
  await refused()
  await engine.sandboxes.stop(id, LOCAL)
  await refused()
  await engine.sandboxes.destroy(id, LOCAL)
  await engine.volumes.remove('data', LOCAL)
  assert.deepEqual([states(), provider.keptVolumes], [[], []])
})

test('VOL-4 a fork and a restored snapshot have an empty directory, unless they name the volume', async () => {
  await engine.volumes.create({ name: 'data' }, LOCAL)
  const volumes = [{ volume: 'data', path: '/data' }]
  const { id } = await engine.sandboxes.create({ volumes }, LOCAL)
  write(id, '/data/file', 'left out')
  write(id, '/own', 'own')
  const forkOf = async (o: { volumes?: typeof volumes }): Promise<SandboxId> => {
    const [made] = await engine.sandboxes.fork(id, o, LOCAL)
    assert.ok(made && 'sandbox' in made)
    return made.sandbox.id
  }
  const plain = await forkOf({})
  assert.deepEqual([read(plain, '/data/file'), read(plain, '/own')], [undefined, 'own'])
  assert.equal(engine.sandboxes.get(plain, LOCAL).spec.volumes, undefined)
  assert.equal(read(await forkOf({ volumes }), '/data/file'), 'left out')
  const shot = await engine.snapshots.create(id, {}, LOCAL)
  const restored = await engine.sandboxes.create({ snapshot: shot.id }, LOCAL)
  assert.deepEqual([read(restored.id, '/data/file'), restored.spec.volumes], [undefined, undefined])
})

test('VOL-5 a key sees and mounts its own volumes only, and an admin sees all', async () => {
  await engine.volumes.create({ name: 'data' }, MINE)
  await engine.volumes.create({ name: 'data' }, THEIRS)
  const { volume: theirs } = await engine.volumes.get('data', THEIRS)
  assert.equal((await engine.volumes.list(MINE)).length, 1)
  assert.equal((await engine.volumes.list(LOCAL)).length, 2)
  for (const ref of [theirs.id, 'unknown']) {
    await fails(() => engine.volumes.get(ref, MINE), 'not_found', 'volume.unknown')
    await fails(() => engine.volumes.remove(ref, MINE), 'not_found', 'volume.unknown')
    const volumes = [{ volume: ref, path: '/data' }]
    await fails(() => engine.sandboxes.create({ volumes }, MINE), 'not_found', 'volume.unknown')
  }
  // The control: its owner can.
  await engine.sandboxes.create({ volumes: [{ volume: theirs.id, path: '/data' }] }, THEIRS)
  // An admin's sandbox belongs to the admin.
  const volumes = [{ volume: theirs.id, path: '/data' }]
  await fails(() => engine.sandboxes.create({ volumes }, LOCAL), 'not_found', 'volume.unknown')
})

test('VOL-6 bad names, sizes and paths are refused before anything is made', async () => {
  for (const name of ['', 'Data', 'a b', '../x', '-x', 'x'.repeat(65), 'a/b', 'ä'])
    await fails(() => engine.volumes.create({ name }, LOCAL), 'invalid_argument', 'name.malformed')
  for (const sizeMib of [0, -1, 1.5, 15, Number.NaN, 2 ** 40])
    await fails(() => engine.volumes.create({ name: 'x', sizeMib }, LOCAL), 'invalid_argument', 'volume.size')
  await engine.volumes.create({ name: 'data' }, LOCAL)
  const mounting = (...paths: string[]) => ({ volumes: paths.map((path) => ({ volume: 'data', path })) })
  const bad = ['', '/', 'data', './data', '/a/../b', '/a/./b', '/a//b', '/a/', '/a\0b', '/a\nb', '~/x']
  for (const path of [
    ...bad,
    `/${'x'.repeat(1024)}`,
    '/proc',
    '/proc/1',
    '/sys',
    '/dev/shm',
    '/tmp/x',
    '/etc',
  ])
    await fails(() => engine.sandboxes.create(mounting(path), LOCAL), 'invalid_argument', 'volume.path')
  for (const paths of [
    ['/a', '/a'],
    ['/a', '/a/b'],
    ['/a/b', '/a'],
  ])
    await fails(() => engine.sandboxes.create(mounting(...paths), LOCAL), 'invalid_argument', 'volume.nested')
  const many = Array.from({ length: 17 }, (_, n) => `/v${n}`)
  await fails(() => engine.sandboxes.create(mounting(...many), LOCAL), 'invalid_argument', 'volume.count')
  assert.deepEqual(provider.existing, [])
  await engine.sandboxes.create(mounting('/a', '/ab', '/b/c'), LOCAL)
})

test('VOL-7 of two creates of one name one wins, and a failed create leaves nothing', async () => {
  const both = await Promise.allSettled([
    engine.volumes.create({ name: 'data' }, LOCAL),
    engine.volumes.create({ name: 'data' }, LOCAL),
  ])
  assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  await fails(() => engine.volumes.create({ name: 'data' }, LOCAL), 'already_exists', 'volume.name_taken')
  provider.fail('volume', { times: 1, isAfter: true })
  await assert.rejects(engine.volumes.create({ name: 'lost' }, LOCAL))
  assert.deepEqual([states(), provider.keptVolumes.length], [['data ready'], 1])
  // Nothing can be removed either: the next sweep does it.
  provider.fail('volume', { times: 1, isAfter: true })
  provider.fail('unvolume', { times: 1 })
  await assert.rejects(engine.volumes.create({ name: 'lost' }, LOCAL))
  assert.deepEqual(states(), ['data ready', 'lost removing'])
  await fixture.clock.advance(SWEEP_MS)
  await settled()
  assert.deepEqual([states(), provider.keptVolumes.length], [['data ready'], 1])
})

test('VOL-7 a removal during a create of a sandbox fails one of them, and neither is half done', async () => {
  const { volume } = await engine.volumes.create({ name: 'data' }, LOCAL)
  const release = provider.hang('create')
  const creating = engine.sandboxes.create({ volumes: [{ volume: 'data', path: '/data' }] }, LOCAL)
  await settled()
  await fails(() => engine.volumes.remove('data', LOCAL), 'conflict', 'volume.used')
  release()
  const { id } = await creating
  await engine.sandboxes.destroy(id, LOCAL)
  const held = provider.hang('unvolume')
  const removing = engine.volumes.remove('data', LOCAL)
  await settled()
  const volumes = [{ volume: volume.id, path: '/data' }]
  await fails(() => engine.sandboxes.create({ volumes }, LOCAL), 'not_found', 'volume.unknown')
  held()
  await removing
  assert.deepEqual([states(), provider.existing], [[], []])
})

test('VOL-7 a new server removes unfinished volumes and keeps the others, and unknown ones too', async () => {
  const { volume } = await engine.volumes.create({ name: 'data' }, LOCAL)
  const store = volumeStore(fixture.state)
  store.insert({ ...volume, id: 'volcreating000000001' as typeof volume.id, name: 'half', state: 'creating' })
  store.update({ ...volume, state: 'ready' })
  engine = await fixture.open()
  await settled()
  assert.deepEqual(states(), ['data ready'])
  // The record is lost, and the data is not.
  store.remove(volume.id)
  engine = await fixture.open()
  await settled()
  assert.deepEqual([states(), provider.keptVolumes], [[], [volume.id]])
  await engine.destroyAll()
  assert.deepEqual(provider.keptVolumes, [])
})

test('VOL-8 a provider without volumes refuses them before anything is made', async () => {
  using other = new EngineFixture({ provider: { lacks: ['volumes'] } })
  const lacking = await other.open()
  await fails(() => lacking.volumes.create({ name: 'data' }, LOCAL), 'unsupported', 'volume.unsupported')
  assert.deepEqual(volumeStore(other.state).all(), [])
  // A provider that only refused is not among those that have to be cleared.
  const absent = new FakeProvider({ clock: other.clock, name: 'absent', lacks: ['volumes'] })
  using two = new EngineFixture({ parts: { providers: [provider, absent] } })
  const both = await two.open()
  const request = { name: 'data', provider: 'absent' }
  await fails(() => both.volumes.create(request, LOCAL), 'unsupported', 'volume.unsupported')
  absent.fail('clear')
  await both.destroyAll()
})

test('a sandbox with a volume is made on the provider that keeps the volume', async () => {
  const second = new FakeProvider({ clock: fixture.clock, name: 'second' })
  using two = new EngineFixture({ parts: { providers: [provider, second] } })
  const both = await two.open()
  await both.volumes.create({ name: 'data', provider: 'second' }, LOCAL)
  await both.volumes.create({ name: 'here' }, LOCAL)
  const volumes = [{ volume: 'data', path: '/data' }]
  assert.equal((await both.sandboxes.create({ volumes }, LOCAL)).provider, 'second')
  await fails(
    () => both.sandboxes.create({ volumes, provider: 'fake' }, LOCAL),
    'invalid_argument',
    'provider.other',
  )
  const mixed = [...volumes, { volume: 'here', path: '/here' }]
  await fails(() => both.sandboxes.create({ volumes: mixed }, LOCAL), 'invalid_argument', 'volume.provider')
})

test('files of a volume are reached through a sandbox without network, which does not keep it', async () => {
  const { volume } = await engine.volumes.create({ name: 'data' }, MINE)
  const { guest } = await engine.volumes.access('data', MINE)
  assert.equal((await engine.volumes.access('data', LOCAL)).guest, guest)
  const [sandbox] = engine.sandboxes.list({ labels: {}, all: false }, LOCAL)
  assert.ok(sandbox)
  assert.deepEqual([sandbox.owner, sandbox.spec.network.mode], [MINE.owner, 'off'])
  assert.deepEqual((await engine.volumes.get('data', MINE)).sandboxes, [])
  await assert.rejects(async () => engine.volumes.access(volume.id, THEIRS))
  await engine.volumes.remove('data', MINE)
  assert.deepEqual(provider.existing, [])
})
