// Pausing, stopping, snapshots, forks and archives, on a fake provider.

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../src/core/error.ts'
import type { SandboxId } from '../src/core/id.ts'
import type { Sandbox } from '../src/core/sandbox.ts'
import type { Some } from '../src/core/some.ts'
import type { Lifetime } from '../src/core/spec.ts'
import type { Engine } from '../src/engine/engine.ts'
import { SeededRandom } from '../src/testing/seeded-random.ts'
import { EngineLives } from './support/engine-lives.ts'

const SWEEP_MS = 3000
let dir: string
let lives: EngineLives
let engine: Engine

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'agentpod-state-'))
  lives = new EngineLives({ random: new SeededRandom(4), tmpDir: dir })
  engine = await lives.begin()
})
afterEach(() => {
  lives[Symbol.dispose]()
  rmSync(dir, { recursive: true })
})

function fails(work: Promise<unknown>, code: ErrorCode, reason?: string): Promise<void> {
  return assert.rejects(work, (error) => {
    assert.ok(isAgentPodError(error, code), String(error))
    if (reason !== undefined) assert.equal(error.reason, reason)
    return true
  })
}

const filesOf = (id: SandboxId): Map<string, Buffer> => lives.provider.inside(id).files
const make = (lifetime: Some<Lifetime> = {}): Promise<Sandbox> => engine.create({ lifetime })

async function restart(): Promise<void> {
  lives.kill()
  engine = await lives.begin()
}

describe('pause', () => {
  test('keeps what is inside and takes the way in away, and resume gives both back and a whole life', async () => {
    const { id } = await make({ autoResume: false, ttlMs: 60_000 })
    const { guest, ended } = engine.live(id)
    assert.equal((await engine.pause(id)).state, 'paused')
    assert.equal((await engine.pause(id)).state, 'paused')
    assert.throws(() => engine.live(id), { reason: 'sandbox.state' })
    await fails(engine.reach(id), 'conflict', 'sandbox.state')
    await lives.clock.advance(3_600_000)
    const resumed = await engine.resume(id)
    assert.equal(resumed.state, 'running')
    assert.equal(resumed.deadlineAt, lives.clock.now() + 60_000)
    assert.equal(engine.live(id).guest, guest, 'streams that were open go on')
    assert.equal(ended.signal.aborted, false)
    assert.equal((await engine.resume(id)).deadlineAt, resumed.deadlineAt, 'a second resume changes nothing')
  })

  test('a call wakes a paused sandbox, and two calls at once wake it once', async () => {
    const { id } = await make()
    await engine.pause(id)
    const [one, two] = await Promise.all([engine.reach(id), engine.reach(id)])
    assert.equal(one, two)
    assert.equal(lives.provider.calls.filter((call) => call === `resume ${id}`).length, 1)
  })

  test('two clients pausing and resuming at once leave it in one of the two states', async () => {
    const { id } = await make()
    for (let round = 0; round < 20; round++) {
      await Promise.allSettled([engine.pause(id), engine.resume(id), engine.pause(id), engine.resume(id)])
      const { state } = engine.get(id)
      assert.ok(state === 'paused' || state === 'running', state)
      assert.equal(lives.provider.stateOf(id), state)
    }
  })

  test('one that fails leaves a running sandbox', async () => {
    const { id } = await make()
    lives.provider.fail('pause', { times: 1 })
    await fails(engine.pause(id), 'unavailable')
    assert.equal(engine.get(id).state, 'running')
    engine.live(id)
    lives.provider.fail('pause', { times: 1, isAfter: true })
    await fails(engine.pause(id), 'unavailable')
    assert.equal(engine.get(id).state, 'running')
    assert.equal(lives.provider.stateOf(id), 'running')
  })

  test('without a freezer it is unsupported, and the sandbox is as before', async () => {
    using without = new EngineLives({ random: new SeededRandom(5), freezes: false })
    const other = await without.begin()
    const { id } = await other.create({})
    await fails(other.pause(id), 'unsupported', 'pause.unsupported')
    await fails(other.snapshot(id, {}), 'unsupported', 'snapshot.live_unsupported')
    assert.deepEqual(other.snapshots(), [])
    assert.equal(other.get(id).state, 'running')
    await other.stop(id)
    assert.equal((await other.snapshot(id, {})).state, 'ready')
  })
})

describe('stop', () => {
  test('ends what runs and keeps the files, and start runs on them', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('kept'))
    const { ended } = engine.live(id)
    assert.equal((await engine.stop(id)).state, 'stopped')
    assert.ok(ended.signal.aborted, 'streams are cut')
    await restart()
    assert.equal(engine.get(id).state, 'stopped', 'it survives a restart')
    await lives.clock.advance(48 * 3_600_000)
    assert.equal((await engine.start(id)).state, 'running')
    assert.equal(filesOf(id).get('/a')?.toString(), 'kept')
    await engine.stop(id)
    assert.ok(await engine.reach(id), 'a call starts it')
  })

  test('of a paused one works; resume of a stopped one is a conflict that says what to do', async () => {
    const { id } = await make()
    await engine.pause(id)
    await engine.stop(id)
    await assert.rejects(engine.resume(id), { code: 'conflict' })
    await engine.destroy(id)
    await fails(engine.start(id), 'not_found', 'sandbox.ended')
  })

  test('a start that fails leaves it stopped', async () => {
    const { id } = await make()
    await engine.stop(id)
    for (const call of ['start', 'configure'] as const) {
      lives.provider.fail(call, { times: 1 })
      await fails(engine.start(id), 'unavailable')
      assert.equal(engine.get(id).state, 'stopped', call)
      assert.equal(lives.provider.stateOf(id), 'stopped', call)
    }
  })
})

describe('when its time is up', () => {
  test('a sandbox is destroyed, paused or stopped as was asked', async () => {
    const ids: Record<string, SandboxId> = {}
    for (const whenOver of ['destroy', 'pause', 'stop'] as const)
      ids[whenOver] = (await make({ whenOver, ttlMs: 2000 })).id
    await lives.clock.advance(2000 + SWEEP_MS)
    assert.equal(engine.get(ids['destroy'] ?? '').state, 'destroyed')
    assert.equal(engine.get(ids['pause'] ?? '').state, 'paused')
    assert.equal(engine.get(ids['stop'] ?? '').state, 'stopped')
  })

  test('the same while no server lived', async () => {
    const paused = await make({ whenOver: 'pause', ttlMs: 2000 })
    const stopped = await make({ whenOver: 'stop', ttlMs: 2000 })
    lives.kill()
    await lives.clock.advance(60_000)
    engine = await lives.begin()
    assert.equal(engine.get(paused.id).state, 'paused')
    assert.equal(engine.get(stopped.id).state, 'stopped')
  })

  test('one that nobody uses is paused when it was to be', async () => {
    const { id } = await make({ whenOver: 'pause', idleMs: 5000 })
    await lives.clock.advance(SWEEP_MS)
    assert.equal(engine.get(id).state, 'running')
    lives.provider.inside(id).idleForMs = 5000
    await lives.clock.advance(SWEEP_MS)
    assert.equal(engine.get(id).state, 'paused')
  })

  test('an extend that was answered counts, although the sweep had decided before it', async () => {
    for (const whenOver of ['destroy', 'pause', 'stop'] as const) {
      // Sweeps come at 3, 6, ... 60 seconds after the start of the engine.
      await restart()
      const { id } = await make({ whenOver, ttlMs: 60_000 })
      await engine.live(id).guest.lease?.renew({ remainingMs: 0, idleMs: 0 }, { timeoutMs: 1000 })
      await lives.clock.advance(60_000 - 1)
      const release = lives.provider.hang('snapshot')
      const snapshot = engine.snapshot(id, {})
      const extended = engine.extend(id, 600_000)
      // Long enough for no sweep, or for one, which waits for its turn; too short for the provider.
      await lives.clock.advance(1999)
      release()
      await Promise.all([snapshot, extended])
      await lives.clock.advance(0)
      assert.equal(engine.get(id).state, 'running', whenOver)
    }
  })

  test('a sandbox that was used again while its pause was decided runs on', async () => {
    const { id } = await make({ whenOver: 'pause', idleMs: 5000 })
    const inside = lives.provider.inside(id)
    let asked = 0
    Object.defineProperty(inside, 'idleForMs', { get: () => (asked++ === 0 ? 6000 : 0) })
    await lives.clock.advance(SWEEP_MS)
    assert.ok(asked >= 2, 'the control: it looked again')
    assert.equal(engine.get(id).state, 'running')
    engine.live(id)
  })

  test('a clock that jumps a day ends what is over and nothing that is paused or stopped', async () => {
    const running = await make()
    const paused = await make()
    const stopped = await make()
    await engine.pause(paused.id)
    await engine.stop(stopped.id)
    await lives.clock.advance(24 * 3_600_000)
    assert.equal(engine.get(running.id).state, 'destroyed')
    assert.equal(engine.get(paused.id).state, 'paused')
    assert.equal(engine.get(stopped.id).state, 'stopped')
  })
})

test('after a reboot, what was paused or is to be kept is stopped with its files; the rest has failed', async () => {
  const paused = await make()
  const kept = await make({ whenOver: 'stop' })
  const plain = await make()
  await engine.pause(paused.id)
  lives.kill()
  lives.provider.reboot()
  engine = await lives.begin()
  assert.equal(engine.get(paused.id).state, 'stopped')
  assert.equal(engine.get(kept.id).state, 'stopped')
  assert.equal(engine.get(plain.id).state, 'failed')
  assert.deepEqual(lives.provider.existing.sort(), [paused.id, kept.id].sort())
  await engine.start(paused.id)
})

describe('snapshots', () => {
  test('hold the files of their moment, with a name, labels and a line', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('one'))
    const first = await engine.snapshot(id, { name: 'first', labels: { a: 'b' } })
    filesOf(id).set('/a', Buffer.from('two'))
    const second = await engine.snapshot(id, {})
    assert.equal(second.parentId, first.id)
    const restored = await engine.create({ snapshot: 'first' })
    assert.equal(filesOf(restored.id).get('/a')?.toString(), 'one')
    assert.equal(restored.tip, first.id)
    const third = await engine.snapshot(restored.id, {})
    assert.equal(third.parentId, first.id)
    assert.deepEqual(
      engine.snapshots().map((one) => one.id),
      [first.id, second.id, third.id],
    )
    await fails(engine.snapshot(id, { name: 'first' }), 'already_exists', 'snapshot.name_taken')
    await restart()
    assert.deepEqual(engine.getSnapshot('first'), first)
  })

  test('take over what was asked of their sandbox, and a create from one may ask otherwise', async () => {
    const { id } = await engine.create({
      resources: { memoryMib: 64 },
      environment: { variables: { A: '1', B: '2' }, user: 'root' },
    })
    const snapshot = await engine.snapshot(id, {})
    const { spec } = await engine.create({
      snapshot: snapshot.id,
      resources: { pids: 9 },
      environment: { variables: { B: '3' } },
    })
    assert.deepEqual([spec.resources.memoryMib, spec.resources.pids], [64, 9])
    assert.deepEqual(spec.environment.variables, { A: '1', B: '3' })
    assert.equal(spec.environment.user, 'root')
    await fails(
      engine.create({ snapshot: snapshot.id, environment: { base: 'debian' } }),
      'invalid_argument',
      'environment.base',
    )
  })

  test('that fail leave nothing, and the sandbox as it was', async () => {
    const { id } = await make()
    for (const isAfter of [false, true]) {
      lives.provider.fail('snapshot', { times: 1, isAfter })
      await fails(engine.snapshot(id, { name: 'x' }), 'unavailable')
      assert.deepEqual([engine.snapshots(), lives.provider.kept], [[], []])
      assert.equal(engine.get(id).state, 'running')
    }
    await fails(engine.snapshot('nobody', {}), 'not_found')
  })

  test('are removed by id or name, not while a sandbox is being made from them, and what was made stays', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('one'))
    await engine.snapshot(id, { name: 'x' })
    const release = lives.provider.hang('create')
    const pending = engine.create({ snapshot: 'x' })
    await fails(engine.removeSnapshot('x'), 'conflict', 'snapshot.used')
    release()
    const made = await pending
    await engine.removeSnapshot('x')
    await fails(engine.create({ snapshot: 'x' }), 'not_found', 'snapshot.unknown')
    assert.equal(filesOf(made.id).get('/a')?.toString(), 'one')
  })

  test('whose files are gone are listed as lost, and nothing is made from them', async () => {
    const { id } = await make()
    const snapshot = await engine.snapshot(id, {})
    lives.provider.loseSnapshot(snapshot.id)
    await restart()
    assert.equal(engine.getSnapshot(snapshot.id).state, 'lost')
    await fails(engine.create({ snapshot: snapshot.id }), 'data_loss', 'snapshot.lost')
    await engine.removeSnapshot(snapshot.id)
  })

  test('of somebody else are unknown', async () => {
    const alice = { owner: 'alice', isAdmin: false }
    const bob = { owner: 'bob', isAdmin: false }
    const { id } = await engine.create({ owner: 'alice' })
    const snapshot = await engine.snapshot(id, { name: 'mine' }, alice)
    assert.deepEqual(engine.snapshots(bob), [])
    for (const ref of ['mine', snapshot.id])
      await fails((async () => engine.getSnapshot(ref, bob))(), 'not_found', 'snapshot.unknown')
    await fails(engine.create({ owner: 'bob', snapshot: snapshot.id }), 'not_found', 'snapshot.unknown')
  })
})

describe('fork', () => {
  test('makes copies with the files of one moment, ids of their own, and leaves no snapshot', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('one'))
    const forked = await engine.fork(id, { count: 3, name: 'copy' })
    const sandboxes = forked.flatMap((one) => ('sandbox' in one ? [one.sandbox] : []))
    assert.deepEqual(
      sandboxes.map(({ name }) => name),
      ['copy-1', 'copy-2', 'copy-3'],
    )
    assert.equal(new Set(sandboxes.map((one) => one.id)).size, 3)
    for (const copy of sandboxes) {
      assert.equal(copy.forkedFrom, id)
      assert.equal(filesOf(copy.id).get('/a')?.toString(), 'one')
    }
    assert.deepEqual([engine.snapshots(), lives.provider.kept], [[], []])
  })

  test('each copy succeeds or fails for itself', async () => {
    const { id } = await make()
    lives.provider.fail('create', { times: 1 })
    const forked = await engine.fork(id, { count: 3 })
    assert.equal(forked.filter((one) => 'error' in one).length, 1)
    assert.deepEqual(lives.provider.kept, [])
    await fails(engine.fork(id, { count: 0 }), 'invalid_argument', 'fork.count')
    await fails(engine.fork(id, { count: 101 }), 'invalid_argument', 'fork.count')
  })

  test('of one being destroyed is one clear error', async () => {
    const { id } = await make()
    const destroying = engine.destroy(id)
    await fails(engine.fork(id, {}), 'not_found', 'sandbox.ended')
    await destroying
    assert.deepEqual([lives.provider.existing, lives.provider.kept], [[], []])
  })
})

describe('an archive', () => {
  async function archived(): Promise<{ bytes: Buffer; id: SandboxId }> {
    const { id } = await engine.create({ resources: { memoryMib: 64 } })
    filesOf(id).set('/a', Buffer.from('one'))
    const { id: snapshot } = await engine.snapshot(id, {})
    const chunks: Buffer[] = []
    for await (const chunk of await engine.exportSnapshot(snapshot)) chunks.push(chunk)
    return { bytes: Buffer.concat(chunks), id }
  }
  const imported = (bytes: Buffer, name?: string): ReturnType<Engine['importSnapshot']> =>
    engine.importSnapshot(Readable.from([bytes.subarray(0, 10), bytes.subarray(10)]), {
      owner: 'local',
      name,
    })

  test('brings the files and what was asked to another snapshot', async () => {
    const { bytes } = await archived()
    const snapshot = await imported(bytes, 'back')
    assert.deepEqual(snapshot.spec.resources.memoryMib, 64)
    const { id } = await engine.create({ snapshot: 'back' })
    assert.equal(filesOf(id).get('/a')?.toString(), 'one')
    assert.deepEqual(readdirSync(dir), [], 'no file is left')
  })

  test('that is cut anywhere, longer, or changed in any byte is refused, and nothing is left of it', async () => {
    const { bytes } = await archived()
    const kept = lives.provider.kept
    for (let length = 0; length < bytes.length; length += 7)
      await assert.rejects(imported(bytes.subarray(0, length)), isAgentPodError, `cut at ${length}`)
    for (let at = 0; at < bytes.length; at += 5) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      await assert.rejects(imported(changed), isAgentPodError, `changed at ${at}`)
    }
    await fails(imported(Buffer.concat([bytes, Buffer.from('x')])), 'data_loss', 'snapshot.damaged')
    await fails(imported(Buffer.from('hello\n')), 'invalid_argument', 'snapshot.archive')
    assert.deepEqual([readdirSync(dir), lives.provider.kept], [[], kept])
  })
})
