import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { LOCAL } from '../../core/principal.ts'
import type { Engine } from '../engine.ts'
import { EngineFixture } from '../testing/engine-fixture.ts'

let fixture: EngineFixture
let engine: Engine
beforeEach(async () => {
  fixture = new EngineFixture()
  engine = await fixture.open()
})
afterEach(() => fixture[Symbol.dispose]())

function fails(work: () => unknown, code: ErrorCode, reason: string): Promise<void> {
  return assert.rejects(
    async () => work(),
    (error) => isAgentPodError(error, code) && error.reason === reason,
  )
}

const write = (id: SandboxId, path: string): unknown =>
  fixture.provider.inside(id).files.set(path, Buffer.from('x'))
const has = (id: SandboxId, path: string): boolean =>
  fixture.provider.inside(id).files.get(path) !== undefined

test('LIFE-6 copies of a sandbox inherit its ephemeral directories, and none keeps their files', async () => {
  const { id } = await engine.sandboxes.create({ ephemeral: [{ path: '/out', sizeMib: 8 }] }, LOCAL)
  write(id, '/out/file')
  write(id, '/kept')
  const [forked] = await engine.sandboxes.fork(id, {}, LOCAL)
  assert.ok(forked && 'sandbox' in forked)
  const copy = forked.sandbox
  assert.deepEqual(copy.spec.ephemeral, [{ path: '/out', sizeMib: 8 }])
  assert.deepEqual([has(copy.id, '/out/file'), has(copy.id, '/kept')], [false, true])
  write(copy.id, '/out/file')
  const snapshot = await engine.snapshots.create(copy.id, {}, LOCAL)
  const more = { ephemeral: [{ path: '/out' }, { path: '/more' }] }
  const restored = await engine.sandboxes.create({ snapshot: snapshot.id, ...more }, LOCAL)
  assert.deepEqual([restored.spec.ephemeral, has(restored.id, '/out/file')], [more.ephemeral, false])
  await engine.sandboxes.stop(copy.id, LOCAL)
  await engine.sandboxes.start(copy.id, LOCAL)
  assert.deepEqual([has(copy.id, '/out/file'), has(copy.id, '/kept')], [false, true])
})

test('LIFE-6 ephemeral directories that are not valid are refused before anything is made', async () => {
  await engine.volumes.create({ name: 'data' }, LOCAL)
  const volumes = [{ volume: 'data', path: '/data' }]
  const refused = async (paths: readonly string[], reason: string, sizeMib?: number): Promise<void> => {
    const ephemeral = paths.map((path) => ({ path, sizeMib }))
    await fails(() => engine.sandboxes.create({ ephemeral, volumes }, LOCAL), 'invalid_argument', reason)
  }
  for (const path of ['/', 'x', '/a/../b', '/tmp/x', '/etc', '/proc/1']) await refused([path], 'volume.path')
  await refused(['/a', '/a'], 'ephemeral.nested')
  await refused(['/a/b', '/a'], 'ephemeral.nested')
  await refused(['/data/x'], 'ephemeral.volume')
  await refused(['/a'], 'ephemeral.size', 0.5)
  const many = Array.from({ length: 17 }, (_, n) => `/x${n}`)
  await refused(many, 'ephemeral.count')
  assert.equal(fixture.provider.existing.length, 0)
  const ephemeral = many.slice(1).map((path) => ({ path }))
  const { spec } = await engine.sandboxes.create({ ephemeral, volumes }, LOCAL)
  assert.equal(spec.ephemeral?.length, 16, 'the control')
})

test('LIFE-6 a provider without temporary file systems refuses ephemeral directories', async () => {
  using other = new EngineFixture({ provider: { lacks: ['rootMounts'] } })
  const lacking = await other.open()
  const ephemeral = [{ path: '/out' }]
  await fails(() => lacking.sandboxes.create({ ephemeral }, LOCAL), 'unsupported', 'ephemeral.unsupported')
  assert.ok(await lacking.sandboxes.create({}, LOCAL), 'the control')
})
