/** What outside verification found of limits that the kernel counts by user id. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { idsOf, poddPid, podhostOf } from '../support/host-view.ts'
import { inside } from '../support/probe.ts'
import { World } from '../support/world.ts'

const world = new World()
const podhost = podhostOf(world)
const client = world.client()

after(async () => {
  await podhost.close()
  await world[Symbol.asyncDispose]()
})

/** Takes pipes of a MiB until the kernel refuses one; an ordinary user may have 64 of them. */
const PIPES = `
import fcntl
held = []
def take():
  held.append(os.pipe())
  fcntl.fcntl(held[-1][1], 1031, 1 << 20)
`

test('S4: each sandbox runs as user ids that no other sandbox has', async () => {
  const seen = new Set<number>()
  for (let i = 0; i < 4; i++) {
    const { id } = await client.create({})
    const { base, own } = await idsOf(podhost, id)
    assert.ok(own)
    for (const map of ['uid_map', 'gid_map']) {
      const [first, outside, count] = readFileSync(`/proc/${await poddPid(podhost, id)}/${map}`, 'utf8')
        .trim()
        .split(/\s+/)
        .map(Number)
      assert.deepEqual([first, outside, count], [0, base, 65_536])
    }
    assert.equal(base % 65_536, 0, 'two ranges are the same or have nothing in common')
    assert.ok(!seen.has(base), `${base} was given twice`)
    seen.add(base)
  }
})

test('S4: a sandbox that takes all pages of pipes leaves its neighbour some', async () => {
  const [greedy, neighbour] = [await client.create({}), await client.create({})]
  const holder = greedy.exec('/usr/bin/python3', {
    args: [
      '-c',
      `import os, sys${PIPES}
try:
  for i in range(400): take()
except OSError: print('all taken', flush=True)
sys.stdin.read()`,
    ],
    stdin: true,
  })
  const output = holder.output()
  const first = await output.next()
  assert.equal(!first.done && first.value.data.toString(), 'all taken\n')
  const one = `${PIPES}\ntell(attempt(take))`
  assert.equal(await inside(greedy, one), 'EPERM', 'the control: nothing is left to itself')
  assert.equal(await inside(neighbour, one), 'ok')
  await holder.closeStdin()
  for await (const _ of output);
})
