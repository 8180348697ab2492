/**
 * PR-06: a flood of the signals that Go ignores neither ends a busy podd nor keeps it from answering. A queue
 * of a hundred thousand signals would, for up to a minute after each flood, and this test would time out.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const FLOOD = `
import os, time
end = time.monotonic() + 3
sent = 0
while time.monotonic() < end:
  for n in (32, 33, 34): os.kill(1, n)
  sent += 1
print(sent)`

test('PR-06 thirty floods of signals 32 to 34 leave podd alive and answering', {
  timeout: 300_000,
}, async () => {
  for (let i = 0; i < 30; i++) {
    await using victim = await world.client().create({})
    const flood = victim.exec('/usr/bin/python3', { args: ['-c', FLOOD], user: 'root' }).wait()
    let isFlooding = true
    flood.then(
      () => {
        isFlooding = false
      },
      () => {
        isFlooding = false
      },
    )
    while (isFlooding) await victim.exec('true').wait()
    assert.ok(Number((await flood).stdout) > 100, `flood ${i}: the control: signals were sent`)
  }
})
