/** A server that restarts with a hundred sandboxes, and a machine that reboots and loses their processes. */
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { cgroupDirectory, podhostOf } from '../support/host-view.ts'
import { shell } from '../support/probe.ts'
import { isAlive, until, World } from '../support/world.ts'

const COUNT = 100
const ASK = { timeoutMs: 20_000 }
const world = new World()
const pod = world.client()

after(() => world[Symbol.asyncDispose]())

async function killed(pid: number): Promise<void> {
  process.kill(pid, 'SIGKILL')
  await until(`process ${pid} is gone`, () => !isAlive(pid))
}

async function inTwenties<T>(
  items: readonly T[],
  work: (item: T, n: number) => Promise<unknown>,
): Promise<void> {
  for (let i = 0; i < items.length; i += 20)
    await Promise.all(items.slice(i, i + 20).map((item, n) => work(item, i + n)))
}

test('BOX-4 kill -9 with a hundred sandboxes: the next server finds all of them, and is ready within five seconds', async () => {
  const sandboxes: Sandbox[] = []
  await inTwenties(Array.from({ length: COUNT }), async () => sandboxes.push(await pod.create({})))
  await inTwenties(sandboxes, (one, n) => shell(one, `echo ${n} > ~/n`))
  await killed(world.serverPid)
  const started = performance.now()
  const listed = await pod.list()
  const took = performance.now() - started
  assert.equal(listed.filter(({ state }) => state === 'running').length, COUNT)
  assert.ok(took < 5000, `${took.toFixed(0)} ms`)
  await inTwenties(sandboxes, async (one, n) => assert.equal(await shell(one, 'cat ~/n'), `${n}\n`))
  await inTwenties(sandboxes, (one) => one.destroy())
})

test('STATE-3 after a reboot, stopped and kept sandboxes start with their files, paused ones are stopped, and the others have failed', async () => {
  const stopped = await pod.create({ name: 'stopped' })
  const kept = await pod.create({ name: 'kept', lifetime: { whenOver: 'stop' } })
  const paused = await pod.create({ name: 'paused' })
  const plain = await pod.create({ name: 'plain' })
  for (const one of [stopped, kept, paused, plain]) await shell(one, 'echo file > ~/file; sync')
  const snapshot = await plain.snapshot({ name: 'shot' })
  await stopped.stop()
  await paused.pause()

  // Everything that runs dies at once, the server first so that it cannot react.
  const podhost = podhostOf(world)
  const { pid } = (await podhost.call('hello', {}, ASK)) as { pid: number }
  const podds: number[] = []
  for (const { id } of [kept, paused, plain])
    podds.push(Number((await podhost.call('sandbox.inspect', { id }, ASK))['pid']))
  await podhost.close()
  for (const one of [world.serverPid, pid]) await killed(one)
  for (const one of podds) {
    const group = cgroupDirectory(one, 'freezer')
    process.kill(one, 'SIGKILL')
    // A frozen process takes its signal when it is thawed.
    if (existsSync(join(group, 'freezer.state'))) writeFileSync(join(group, 'freezer.state'), 'THAWED')
    else writeFileSync(join(group, 'cgroup.freeze'), '0')
  }

  await until('the sweep has seen it', async () => {
    const states = Object.fromEntries((await pod.list({ all: true })).map(({ name, state }) => [name, state]))
    return (
      states['stopped'] === 'stopped' &&
      states['kept'] === 'stopped' &&
      states['paused'] === 'stopped' &&
      states['plain'] === 'failed'
    )
  })
  for (const one of [stopped, kept, paused]) assert.equal(await shell(one, 'cat ~/file'), 'file\n')
  await using again = await pod.create({ snapshot: snapshot.id })
  assert.equal(await shell(again, 'cat ~/file'), 'file\n')
  for (const one of [stopped, kept, paused]) await one.destroy()
  await pod.snapshots.remove(snapshot.id)
})
