import assert from 'node:assert/strict'
import { mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { AgentPodError } from '../../core/error.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { systemClock } from '../../util/clock.ts'
import { type RunningSync, startSync } from './sync-loop.ts'
import { type SideEditor, twoDirectories, twoMemorySides } from './testing/two-sides.ts'

interface Running {
  readonly stage: ReturnType<typeof twoMemorySides>
  readonly sync: RunningSync
  readonly clock: FakeClock
  readonly said: string[]
  /** Lets time pass, and what it brings about happen. */
  pass(ms: number): Promise<void>
}

async function running(): Promise<Running> {
  const stage = twoMemorySides()
  const clock = new FakeClock()
  const said: string[] = []
  for (const hands of [stage.here, stage.there]) hands.write('a', 'one')
  const sent = await stage.host.scan()
  const sync = startSync({
    host: stage.host,
    inside: stage.inside,
    sent,
    clock,
    say: (line) => void said.push(line),
  })
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 50) {
      await clock.advance(Math.min(50, left))
      // Everything in memory is done within a few turns.
      for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
    }
  }
  await pass(1000)
  return { stage, sync, clock, said, pass }
}

describe('a running sync', () => {
  test('sync handles reported changes after a short pause, without a scan', async () => {
    const { stage, pass, sync } = await running()
    const { scans } = stage.inside
    stage.here.write('a', 'new')
    stage.there.write('b', 'new')
    assert.equal(stage.there.show('a'), 'one')
    await pass(500)
    assert.deepEqual([stage.there.show('a'), stage.here.show('b')], ['new', 'new'])
    assert.equal(stage.inside.scans, scans)
    await sync.finish()
  })

  test('sync handles a burst of changes in one round', async () => {
    const { stage, pass, sync } = await running()
    const { looks } = stage.host
    for (let i = 0; i < 20; i++) stage.here.write('a', `${i}`)
    await pass(90)
    assert.equal(stage.host.looks, looks)
    await pass(400)
    assert.equal(stage.there.show('a'), '19')
    // One look at what came, and one at what was written for it inside.
    assert.ok(stage.host.looks - looks <= 2, `${stage.host.looks - looks} looks`)
    await sync.finish()
  })

  test('sync does not wait for a pause that never comes', async () => {
    const { stage, pass, sync } = await running()
    for (let i = 0; i < 20; i++) {
      stage.here.write('a', `${i}`)
      await pass(50)
    }
    assert.notEqual(stage.there.show('a'), 'one')
    await sync.finish()
  })

  test('sync comes to rest after its own writes', async () => {
    const { stage, pass, sync } = await running()
    stage.here.write('a', 'new')
    stage.there.write('b', 'new')
    await pass(3000)
    const before = [stage.host.looks, stage.inside.looks, stage.host.scans, stage.inside.scans]
    await pass(5000)
    assert.deepEqual([stage.host.looks, stage.inside.looks, stage.host.scans, stage.inside.scans], before)
    await sync.finish()
  })

  test('sync finds unreported changes within half a minute', async () => {
    const { stage, pass, sync } = await running()
    const [here, there] = [stage.host, stage.inside].map(silently)
    here?.write('quiet', 'here')
    there?.write('silent', 'there')
    await pass(10_000)
    assert.equal(stage.there.show('quiet'), undefined)
    await pass(25_000)
    assert.deepEqual([stage.there.show('quiet'), stage.here.show('silent')], ['here', 'there'])
    await sync.finish()
  })

  test('sync scans a side that cannot report changes about every second', async () => {
    const stage = twoMemorySides()
    const clock = new FakeClock()
    stage.inside.isWatching = false
    const sync = startSync({
      host: stage.host,
      inside: stage.inside,
      sent: new Map(),
      clock,
      say: () => undefined,
    })
    const turns = async (ms: number): Promise<void> => {
      for (let left = ms; left > 0; left -= 50) {
        await clock.advance(50)
        for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
      }
    }
    await turns(1000)
    const { scans } = stage.inside
    silently(stage.inside).write('silent', 'there')
    await turns(2000)
    assert.equal(stage.here.show('silent'), 'there')
    assert.ok(stage.inside.scans - scans <= 3)
    await sync.finish()
  })

  test('sync reports a failing side once, and continues when it works again', async () => {
    const { stage, pass, sync, said } = await running()
    stage.inside.failure = new AgentPodError({
      code: 'unavailable',
      reason: 'server.unreachable',
      message: 'no answer',
    })
    stage.here.write('a', 'new')
    await pass(20_000)
    assert.deepEqual(said, ['no answer'])
    stage.inside.failure = undefined
    await pass(40_000)
    assert.equal(stage.there.show('a'), 'new')
    assert.deepEqual(said, ['no answer'])
    await sync.finish()
  })

  test('sync ends with the reason when the sandbox is gone', async () => {
    const { stage, pass, sync } = await running()
    const gone = new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.unknown',
      message: 'there is no sandbox x',
    })
    stage.inside.failure = gone
    stage.here.write('a', 'new')
    await pass(1000)
    assert.equal(await sync.ended, gone)
    const { looks } = stage.host
    await pass(60_000)
    assert.equal(stage.host.looks, looks)
  })

  test('sync runs a last full round before it finishes', async () => {
    const { stage, sync } = await running()
    stage.here.write('a', 'at the last moment')
    silently(stage.inside).write('b', 'at the last moment')
    await sync.finish()
    assert.deepEqual(
      [stage.there.show('a'), stage.here.show('b')],
      ['at the last moment', 'at the last moment'],
    )
  })

  test('sync finishes with an error if a file could not be saved on this machine', async () => {
    const { stage, sync } = await running()
    stage.host.isFull = true
    stage.there.write('b', 'new')
    await assert.rejects(sync.finish(), /1 changed files could not be saved on this machine: b/)
  })
})

/** The same side, without a word to who watches it. */
function silently(side: Running['stage']['host']): SideEditor {
  const tell: Disposable = side.watch(() => undefined)
  tell[Symbol.dispose]()
  return side
}

test('sync between real directories passes changes both ways long before the next scan', async () => {
  await using stage = twoDirectories(process.env)
  for (const hands of [stage.here, stage.there]) hands.write('dir/a', 'one')
  const said: string[] = []
  const sync = startSync({
    host: stage.host,
    inside: stage.inside,
    sent: await stage.host.scan(),
    clock: systemClock,
    say: (line) => void said.push(line),
  })
  await until(() => stage.host.isWatching && stage.inside.isWatching)
  await new Promise((resolve) => setTimeout(resolve, 500))
  stage.here.write('dir/a', 'from here')
  stage.there.write('dir/b', 'from there')
  await until(() => stage.there.show('dir/a') === 'from here' && stage.here.show('dir/b') === 'from there')
  // A new directory, and files that come to be in it right after.
  stage.here.write('new/deep/x', '1')
  stage.here.write('new/deep/y', '2')
  await until(() => stage.there.show('new/deep/x') === '1' && stage.there.show('new/deep/y') === '2')
  stage.here.write('new/deep/z', '3')
  await until(() => stage.there.show('new/deep/z') === '3')
  renameSync(join(stage.hostRoot, 'new'), join(stage.hostRoot, 'renamed'))
  await until(
    () => stage.there.show('renamed/deep/x') === '1' && stage.there.show('new/deep/x') === undefined,
  )
  mkdirSync(join(stage.insideRoot, 'made'))
  stage.there.write('made/inside', '4')
  await until(() => stage.here.show('made/inside') === '4')
  stage.there.remove('made')
  await until(() => stage.here.show('made/inside') === undefined)
  await sync.finish()
  assert.deepEqual(said, [])
})

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 8000
  while (!condition()) {
    assert.ok(performance.now() < end, 'it takes too long')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
