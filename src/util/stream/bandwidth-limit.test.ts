import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import { Duplex, PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { FakeClock } from '../../testing/fake-clock.ts'
import { BandwidthLimit, TokenBucket } from './bandwidth-limit.ts'

test('a bucket lets its burst pass at once, and the rest at its rate', async () => {
  const clock = new FakeClock()
  const bucket = new TokenBucket(1000, clock)
  const passed: string[] = []
  bucket.take(250, () => passed.push('burst'))
  bucket.take(100, () => passed.push('a'))
  bucket.take(900, () => passed.push('b'))
  assert.deepEqual(passed, ['burst'])
  await clock.advance(100)
  assert.deepEqual(passed, ['burst', 'a'])
  await clock.advance(899)
  assert.deepEqual(passed, ['burst', 'a'])
  await clock.advance(1)
  assert.deepEqual(passed, ['burst', 'a', 'b'])
  // Idle time is not saved up beyond the burst.
  await clock.advance(60_000)
  bucket.take(251, () => passed.push('c'))
  assert.equal(passed.at(-1), 'b')
  // What is canceled does not pass.
  bucket.take(1000, () => passed.push('never'))()
  await clock.advance(60_000)
  assert.equal(passed.at(-1), 'c')
})

test('streams of one limit share it, in both directions, and lose no byte', async () => {
  const content = Buffer.alloc(300_000, 'agentpod')
  const server = createServer((socket) => {
    socket.pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const limit = new BandwidthLimit(2_000_000)
  const one = async (): Promise<void> => {
    const socket: Socket = connect(port, '127.0.0.1')
    const paced = limit.over(socket)
    paced.end(content)
    assert.ok((await buffer(paced)).equals(content))
  }
  const startedAt = performance.now()
  await Promise.all([one(), one(), one()])
  const seconds = (performance.now() - startedAt) / 1000
  server.close()
  // Everything beyond the burst takes its time: the bound cannot fail on a slow machine.
  assert.ok(900_000 <= 2_000_000 * (seconds + 0.25) + 1, `${seconds} s`)
  assert.ok(seconds >= 0.19, `${seconds} s`)
})

test('a paced stream ends with its inner one, and destroys it', async () => {
  const inner = new PassThrough()
  const paced = new BandwidthLimit(1000).over(inner)
  paced.on('error', () => undefined)
  inner.destroy(new Error('reset'))
  await new Promise((resolve) => paced.once('close', resolve))
  assert.equal(paced.errored?.message, 'reset')
  const other = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
  const outer = new BandwidthLimit(1000).over(other)
  outer.destroy()
  assert.ok(other.destroyed)
})
