// Pausing, stopping, snapshots, forks and archives, on a fake provider.

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../../src/core/error.ts'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Sandbox } from '../../src/core/sandbox.ts'
import type { Lifetime } from '../../src/core/spec.ts'
import { KEPT_LIFETIME } from '../../src/core/spec.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import type { Optional } from '../../src/util/optional.ts'
import { EngineLives } from '../support/engine-lives.ts'

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
const make = (lifetime: Optional<Lifetime> = {}): Promise<Sandbox> =>
  engine.sandboxes.create({ lifetime }, LOCAL)

async function restart(): Promise<void> {
  lives.kill()
  engine = await lives.begin()
}

describe('pause', () => {
  test('a pause keeps processes and blocks access, and a resume restores access and a whole time to live', async () => {
    const { id } = await make({ autoResume: false, ttlMs: 60_000 })
    const { guest, ended } = engine.guests.connection(id, LOCAL)
    assert.equal((await engine.sandboxes.pause(id, LOCAL)).state, 'paused')
    assert.equal((await engine.sandboxes.pause(id, LOCAL)).state, 'paused')
    assert.throws(() => engine.guests.connection(id, LOCAL), { reason: 'sandbox.state' })
    await fails(engine.guests.wake(id, LOCAL), 'conflict', 'sandbox.state')
    await lives.clock.advance(3_600_000)
    const resumed = await engine.sandboxes.resume(id, LOCAL)
    assert.equal(resumed.state, 'running')
    assert.equal(resumed.deadlineAt, lives.clock.now() + 60_000)
    assert.equal(engine.guests.connection(id, LOCAL).guest, guest, 'streams that were open go on')
    assert.equal(ended.signal.aborted, false)
    assert.equal(
      (await engine.sandboxes.resume(id, LOCAL)).deadlineAt,
      resumed.deadlineAt,
      'a second resume changes nothing',
    )
  })

  test('STATE-1 a call resumes a paused sandbox, and two calls at once resume it once', async () => {
    const { id } = await make()
    await engine.sandboxes.pause(id, LOCAL)
    const [one, two] = await Promise.all([engine.guests.wake(id, LOCAL), engine.guests.wake(id, LOCAL)])
    assert.equal(one, two)
    assert.equal(lives.provider.calls.filter((call) => call === `resume ${id}`).length, 1)
  })

  test('two clients that pause and resume at once leave the sandbox in one of the two states', async () => {
    const { id } = await make()
    for (let round = 0; round < 20; round++) {
      await Promise.allSettled([
        engine.sandboxes.pause(id, LOCAL),
        engine.sandboxes.resume(id, LOCAL),
        engine.sandboxes.pause(id, LOCAL),
        engine.sandboxes.resume(id, LOCAL),
      ])
      const { state } = engine.sandboxes.get(id, LOCAL)
      assert.ok(state === 'paused' || state === 'running', state)
      assert.equal(lives.provider.stateOf(id), state)
    }
  })

  test('a pause that fails leaves a running sandbox', async () => {
    const { id } = await make()
    lives.provider.fail('pause', { times: 1 })
    await fails(engine.sandboxes.pause(id, LOCAL), 'unavailable')
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    engine.guests.connection(id, LOCAL)
    lives.provider.fail('pause', { times: 1, isAfter: true })
    await fails(engine.sandboxes.pause(id, LOCAL), 'unavailable')
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    assert.equal(lives.provider.stateOf(id), 'running')
  })

  test('STATE-2 without a freezer a pause is unsupported, and the sandbox is as before', async () => {
    using without = new EngineLives({ random: new SeededRandom(5), freezes: false })
    const other = await without.begin()
    const { id } = await other.sandboxes.create({}, LOCAL)
    await fails(other.sandboxes.pause(id, LOCAL), 'unsupported', 'pause.unsupported')
    await fails(other.snapshots.create(id, {}, LOCAL), 'unsupported', 'snapshot.live_unsupported')
    assert.deepEqual(other.snapshots.list(LOCAL), [])
    assert.equal(other.sandboxes.get(id, LOCAL).state, 'running')
    await other.sandboxes.stop(id, LOCAL)
    assert.equal((await other.snapshots.create(id, {}, LOCAL)).state, 'ready')
  })
})

describe('stop', () => {
  test('STATE-3 a stop ends processes and keeps the files, and a start runs on them', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('kept'))
    const { ended } = engine.guests.connection(id, LOCAL)
    assert.equal((await engine.sandboxes.stop(id, LOCAL)).state, 'stopped')
    assert.ok(ended.signal.aborted, 'streams are cut')
    await restart()
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'stopped', 'it survives a restart')
    await lives.clock.advance(48 * 3_600_000)
    assert.equal((await engine.sandboxes.start(id, LOCAL)).state, 'running')
    assert.equal(filesOf(id).get('/a')?.toString(), 'kept')
    await engine.sandboxes.stop(id, LOCAL)
    assert.ok(await engine.guests.wake(id, LOCAL), 'a call starts it')
  })

  test('a paused sandbox can be stopped, and resuming a stopped one is a conflict that says what to do', async () => {
    const { id } = await make()
    await engine.sandboxes.pause(id, LOCAL)
    await engine.sandboxes.stop(id, LOCAL)
    await assert.rejects(engine.sandboxes.resume(id, LOCAL), { code: 'conflict' })
    await engine.sandboxes.destroy(id, LOCAL)
    await fails(engine.sandboxes.start(id, LOCAL), 'not_found', 'sandbox.ended')
  })

  test('a start that fails leaves the sandbox stopped', async () => {
    const { id } = await make()
    await engine.sandboxes.stop(id, LOCAL)
    for (const call of ['start', 'configure'] as const) {
      lives.provider.fail(call, { times: 1 })
      await fails(engine.sandboxes.start(id, LOCAL), 'unavailable')
      assert.equal(engine.sandboxes.get(id, LOCAL).state, 'stopped', call)
      assert.equal(lives.provider.stateOf(id), 'stopped', call)
    }
  })
})

describe('the end of the time', () => {
  test('STATE-4 at the end of its time a sandbox is destroyed, paused or stopped, as requested', async () => {
    const ids: Record<string, SandboxId> = {}
    for (const whenOver of ['destroy', 'pause', 'stop'] as const)
      ids[whenOver] = (await make({ whenOver, ttlMs: 2000 })).id
    await lives.clock.advance(2000 + SWEEP_MS)
    assert.equal(engine.sandboxes.get(ids['destroy'] ?? '', LOCAL).state, 'destroyed')
    assert.equal(engine.sandboxes.get(ids['pause'] ?? '', LOCAL).state, 'paused')
    assert.equal(engine.sandboxes.get(ids['stop'] ?? '', LOCAL).state, 'stopped')
  })

  test('STATE-4 the end of the time holds while no server is running', async () => {
    const paused = await make({ whenOver: 'pause', ttlMs: 2000 })
    const stopped = await make({ whenOver: 'stop', ttlMs: 2000 })
    lives.kill()
    await lives.clock.advance(60_000)
    engine = await lives.begin()
    assert.equal(engine.sandboxes.get(paused.id, LOCAL).state, 'paused')
    assert.equal(engine.sandboxes.get(stopped.id, LOCAL).state, 'stopped')
  })

  test('STATE-4 an idle sandbox is paused, as requested', async () => {
    const { id } = await make({ whenOver: 'pause', idleMs: 5000 })
    await lives.clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    lives.provider.inside(id).idleForMs = 5000
    await lives.clock.advance(SWEEP_MS)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'paused')
  })

  test('an extend that was answered counts, even if the sweep had decided before it', async () => {
    for (const whenOver of ['destroy', 'pause', 'stop'] as const) {
      // Sweeps come at 3, 6, ... 60 seconds after the start of the engine.
      await restart()
      const { id } = await make({ whenOver, ttlMs: 60_000 })
      await engine.guests
        .connection(id, LOCAL)
        .guest.lease?.renew({ remainingMs: 0, idleMs: 0 }, { timeoutMs: 1000 })
      await lives.clock.advance(60_000 - 1)
      const release = lives.provider.hang('snapshot')
      const snapshot = engine.snapshots.create(id, {}, LOCAL)
      const extended = engine.sandboxes.extend(id, 600_000, LOCAL)
      // Long enough for no sweep, or for one, which waits for its turn; too short for the provider.
      await lives.clock.advance(1999)
      release()
      await Promise.all([snapshot, extended])
      await lives.clock.advance(0)
      assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running', whenOver)
    }
  })

  test('a sandbox that is used again while its pause is being decided keeps running', async () => {
    const { id } = await make({ whenOver: 'pause', idleMs: 5000 })
    const inside = lives.provider.inside(id)
    let asked = 0
    Object.defineProperty(inside, 'idleForMs', { get: () => (asked++ === 0 ? 6000 : 0) })
    await lives.clock.advance(SWEEP_MS)
    assert.ok(asked >= 2, 'the control: it looked again')
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    engine.guests.connection(id, LOCAL)
  })

  test('a clock that jumps a day ends expired sandboxes and no paused or stopped one', async () => {
    const running = await make()
    const paused = await make()
    const stopped = await make()
    await engine.sandboxes.pause(paused.id, LOCAL)
    await engine.sandboxes.stop(stopped.id, LOCAL)
    await lives.clock.advance(24 * 3_600_000)
    assert.equal(engine.sandboxes.get(running.id, LOCAL).state, 'destroyed')
    assert.equal(engine.sandboxes.get(paused.id, LOCAL).state, 'paused')
    assert.equal(engine.sandboxes.get(stopped.id, LOCAL).state, 'stopped')
  })
})

test('STATE-3 after a reboot, paused and kept sandboxes are stopped with their files, and the others have failed', async () => {
  const paused = await make()
  const kept = await make({ whenOver: 'stop' })
  const plain = await make()
  await engine.sandboxes.pause(paused.id, LOCAL)
  lives.kill()
  lives.provider.reboot()
  engine = await lives.begin()
  assert.equal(engine.sandboxes.get(paused.id, LOCAL).state, 'stopped')
  assert.equal(engine.sandboxes.get(kept.id, LOCAL).state, 'stopped')
  assert.equal(engine.sandboxes.get(plain.id, LOCAL).state, 'failed')
  assert.deepEqual(lives.provider.existing.sort(), [paused.id, kept.id].sort())
  await engine.sandboxes.start(paused.id, LOCAL)
})

describe('snapshots', () => {
  test('STATE-5 a snapshot holds the files of its moment, with a name, labels and a description', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('one'))
    const first = await engine.snapshots.create(id, { name: 'first', labels: { a: 'b' } }, LOCAL)
    filesOf(id).set('/a', Buffer.from('two'))
    const second = await engine.snapshots.create(id, {}, LOCAL)
    assert.equal(second.parentId, first.id)
    const restored = await engine.sandboxes.create({ snapshot: 'first' }, LOCAL)
    assert.equal(filesOf(restored.id).get('/a')?.toString(), 'one')
    assert.equal(restored.tip, first.id)
    const third = await engine.snapshots.create(restored.id, {}, LOCAL)
    assert.equal(third.parentId, first.id)
    assert.deepEqual(
      engine.snapshots.list(LOCAL).map((one) => one.id),
      [first.id, second.id, third.id],
    )
    await fails(
      engine.snapshots.create(id, { name: 'first' }, LOCAL),
      'already_exists',
      'snapshot.name_taken',
    )
    await restart()
    assert.deepEqual(engine.snapshots.get('first', LOCAL), first)
  })

  test('a snapshot keeps the settings of its sandbox, and a create from it may override them', async () => {
    const { id } = await engine.sandboxes.create(
      {
        resources: { memoryMib: 64 },
        environment: { variables: { A: '1', B: '2' }, user: 'root' },
      },
      LOCAL,
    )
    const snapshot = await engine.snapshots.create(id, {}, LOCAL)
    const { spec } = await engine.sandboxes.create(
      {
        snapshot: snapshot.id,
        resources: { pids: 9 },
        environment: { variables: { B: '3' } },
      },
      LOCAL,
    )
    assert.deepEqual([spec.resources.memoryMib, spec.resources.pids], [64, 9])
    assert.deepEqual(spec.environment.variables, { A: '1', B: '3' })
    assert.equal(spec.environment.user, 'root')
    await fails(
      engine.sandboxes.create({ snapshot: snapshot.id, environment: { base: 'debian' } }, LOCAL),
      'invalid_argument',
      'environment.base',
    )
  })

  test('STATE-5 a snapshot that fails leaves nothing, and the sandbox as it was', async () => {
    const { id } = await make()
    for (const isAfter of [false, true]) {
      lives.provider.fail('snapshot', { times: 1, isAfter })
      await fails(engine.snapshots.create(id, { name: 'x' }, LOCAL), 'unavailable')
      assert.deepEqual([engine.snapshots.list(LOCAL), lives.provider.kept], [[], []])
      assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    }
    await fails(engine.snapshots.create('nobody', {}, LOCAL), 'not_found')
  })

  test('a snapshot is removed by id or name, but not while a sandbox is being created from it', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('one'))
    await engine.snapshots.create(id, { name: 'x' }, LOCAL)
    const release = lives.provider.hang('create')
    const pending = engine.sandboxes.create({ snapshot: 'x' }, LOCAL)
    await fails(engine.snapshots.remove('x', LOCAL), 'conflict', 'snapshot.used')
    release()
    const made = await pending
    await engine.snapshots.remove('x', LOCAL)
    await fails(engine.sandboxes.create({ snapshot: 'x' }, LOCAL), 'not_found', 'snapshot.unknown')
    assert.equal(filesOf(made.id).get('/a')?.toString(), 'one')
  })

  test('a snapshot whose files are gone is listed as lost, and no sandbox is created from it', async () => {
    const { id } = await make()
    const snapshot = await engine.snapshots.create(id, {}, LOCAL)
    lives.provider.loseSnapshot(snapshot.id)
    await restart()
    assert.equal(engine.snapshots.get(snapshot.id, LOCAL).state, 'lost')
    await fails(engine.sandboxes.create({ snapshot: snapshot.id }, LOCAL), 'data_loss', 'snapshot.lost')
    await engine.snapshots.remove(snapshot.id, LOCAL)
  })

  test('a snapshot of another owner is unknown', async () => {
    const alice = { owner: 'alice', isAdmin: false }
    const bob = { owner: 'bob', isAdmin: false }
    const { id } = await engine.sandboxes.create({ owner: 'alice' }, { owner: 'alice', isAdmin: false })
    const snapshot = await engine.snapshots.create(id, { name: 'mine' }, alice)
    assert.deepEqual(engine.snapshots.list(bob), [])
    for (const ref of ['mine', snapshot.id])
      await fails((async () => engine.snapshots.get(ref, bob))(), 'not_found', 'snapshot.unknown')
    await fails(
      engine.sandboxes.create({ owner: 'bob', snapshot: snapshot.id }, { owner: 'bob', isAdmin: false }),
      'not_found',
      'snapshot.unknown',
    )
  })
})

describe('fork', () => {
  test('STATE-5 a fork makes copies with the files of one moment and their own ids, and leaves no snapshot', async () => {
    const { id } = await make()
    filesOf(id).set('/a', Buffer.from('one'))
    const forked = await engine.sandboxes.fork(id, { count: 3, name: 'copy' }, LOCAL)
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
    assert.deepEqual([engine.snapshots.list(LOCAL), lives.provider.kept], [[], []])
  })

  test('each copy of a fork succeeds or fails on its own', async () => {
    const { id } = await make()
    lives.provider.fail('create', { times: 1 })
    const forked = await engine.sandboxes.fork(id, { count: 3 }, LOCAL)
    assert.equal(forked.filter((one) => 'error' in one).length, 1)
    assert.deepEqual(lives.provider.kept, [])
    await fails(engine.sandboxes.fork(id, { count: 0 }, LOCAL), 'invalid_argument', 'fork.count')
    await fails(engine.sandboxes.fork(id, { count: 101 }, LOCAL), 'invalid_argument', 'fork.count')
  })

  test('a fork of a sandbox that is being destroyed is one clear error', async () => {
    const { id } = await make()
    const destroying = engine.sandboxes.destroy(id, LOCAL)
    await fails(engine.sandboxes.fork(id, {}, LOCAL), 'not_found', 'sandbox.ended')
    await destroying
    assert.deepEqual([lives.provider.existing, lives.provider.kept], [[], []])
  })
})

describe('an archive', () => {
  async function archived(): Promise<{ bytes: Buffer; id: SandboxId }> {
    const { id } = await engine.sandboxes.create(
      { resources: { memoryMib: 64, bandwidthBytes: 4096 }, lifetime: KEPT_LIFETIME },
      LOCAL,
    )
    filesOf(id).set('/a', Buffer.from('one'))
    const { id: snapshot } = await engine.snapshots.create(id, {}, LOCAL)
    const chunks: Buffer[] = []
    for await (const chunk of await engine.snapshots.export(snapshot, LOCAL)) chunks.push(chunk)
    return { bytes: Buffer.concat(chunks), id }
  }
  const imported = (bytes: Buffer, name?: string): ReturnType<Engine['snapshots']['import']> =>
    engine.snapshots.import(Readable.from([bytes.subarray(0, 10), bytes.subarray(10)]), { name }, LOCAL)

  test('an archive carries the files and settings to another snapshot', async () => {
    const { bytes } = await archived()
    const snapshot = await imported(bytes, 'back')
    const { memoryMib, bandwidthBytes } = snapshot.spec.resources
    assert.deepEqual([memoryMib, bandwidthBytes], [64, 4096])
    assert.deepEqual(snapshot.spec.lifetime, { ...KEPT_LIFETIME, autoResume: true })
    const { id } = await engine.sandboxes.create({ snapshot: 'back' }, LOCAL)
    assert.equal(filesOf(id).get('/a')?.toString(), 'one')
    assert.deepEqual(readdirSync(dir), [], 'no file is left')
  })

  test('STATE-7 an archive that is truncated, too long, or changed in any byte is refused, and leaves nothing', async () => {
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
