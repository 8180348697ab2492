/**
 * Two hundred thousand denials from one sandbox. It takes minutes, so it is not part of every run.
 * src/egress/record/records.test.ts counts a million.
 */
import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { flood } from '../support/flood.ts'
import { quietly } from '../support/host-view.ts'
import { shell } from '../support/probe.ts'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const MANY = 200_000

test('NET-7 a flood of denials fills neither the disk nor the log, and the server stays small', async () => {
  const pod = world.client()
  const flooder = await pod.create({ name: 'flooder' })
  const written = (): number => {
    const files = ['events.db', 'events.db-wal', 'logs/server.log', 'logs/egress.log', 'logs/podhost.log']
    return files
      .map((name) => quietly(() => statSync(join(world.home, name)).size) ?? 0)
      .reduce((sum, size) => sum + size, 0)
  }
  const rss = (): number =>
    Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${world.serverPid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  await flood(flooder, 1000)
  const [earlier, before] = [written(), rss()]
  const made = await flood(flooder, MANY)
  assert.ok(made >= MANY, `the control: ${made} were tried`)
  assert.ok(written() - earlier < 32 << 20, `${written() - earlier} bytes were written`)
  assert.ok(rss() - before < 100, `the server grew by ${rss() - before} MiB`)
  const lines = (await world.ok(['net', 'log', '--json', 'flooder'])).trimEnd().split('\n')
  // The newest ten thousand are kept; older ones go when 256 more have come.
  assert.ok(lines.length > 1000 && lines.length <= 10_000 + 256, `${lines.length} lines`)
  assert.equal(await shell(flooder, 'echo still here'), 'still here\n')
  await flooder.destroy()
})
