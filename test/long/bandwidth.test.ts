/** `--bandwidth` holds for connections into a sandbox. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const RATE = 200 * 1024
const SERVE = `require('node:http').createServer((_, res) => {
  const chunk = Buffer.alloc(65536)
  const fill = () => { while (res.write(chunk)); }
  res.on('drain', fill); fill()
}).listen(8000, '127.0.0.1')`

async function moved(name: string): Promise<{ bytes: number; seconds: number }> {
  const pod = world.client()
  const sandbox = await pod.get(name)
  await sandbox.spawn('node', { args: ['-e', SERVE] })
  const ports = 'until grep -q 1F40 /proc/net/tcp; do sleep 0.1; done'
  await sandbox.exec('sh', { args: ['-c', ports] }).wait()
  const startedAt = performance.now()
  let bytes = 0
  const streams = await Promise.all([sandbox.dial(8000), sandbox.dial(8000)])
  for (const stream of streams) {
    stream.on('data', (data: Buffer) => (bytes += data.length))
    stream.on('error', () => undefined)
    stream.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  }
  await until('something passes', () => bytes > 0, 10_000)
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const seen = { bytes, seconds: (performance.now() - startedAt) / 1000 }
  for (const stream of streams) stream.destroy()
  return seen
}

test('LIFE-5 connections to the ports of a sandbox together move at most its bandwidth', async () => {
  await world.ok(['create', '--name', 'slow', '--bandwidth', '200k'])
  await world.ok(['create', '--name', 'free'])
  const [{ resources }] = (JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]).filter(
    ({ name }) => name === 'slow',
  ) as [SandboxView]
  assert.equal(resources.bandwidthBytes, RATE)
  const slow = await moved('slow')
  const most = RATE * (slow.seconds + 0.25)
  assert.ok(slow.bytes <= most, `${slow.bytes} bytes, of at most ${most}`)
  const free = await moved('free')
  assert.ok(free.bytes > most, `the control: ${free.bytes} bytes without a limit`)
  const wrong = await world.cli(['create', '--bandwidth', '5'])
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /--bandwidth is a size for each second, like 500k or 10m/)
})
