/** RS-10 at its full size: minutes, so it is not part of every run. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const TEN_GIGABYTES = 10 * (1 << 30)

test('RS-10 ten gigabytes of output pass, and the server grows by less than 50 MB', async () => {
  const sandbox = await world.client().create({ resources: { memoryMib: 512 } })
  await sandbox.exec('true').wait()
  const rss = (): number =>
    Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${world.serverPid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  const earlier = rss()
  let highest = earlier
  let received = 0
  const flood = sandbox.exec('/bin/sh', { args: ['-c', `yes | head -c ${TEN_GIGABYTES}`] })
  for await (const { data } of flood.output()) {
    received += data.length
    highest = Math.max(highest, rss())
  }
  assert.equal(received, TEN_GIGABYTES)
  assert.equal(flood.exit.exitCode, 0)
  assert.ok(highest - earlier < 50, `the server grew by ${(highest - earlier).toFixed(1)} MiB`)
  await sandbox.destroy()
})
