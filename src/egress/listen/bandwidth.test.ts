/** The bandwidth of a sandbox: all its connections share one limit in each direction. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { EgressFixture, readUntil, testPolicy } from '../testing/egress-fixture.ts'

const RATE = 400_000
/** What a bucket lets pass at once. */
const BURST = RATE / 4
const closing: EgressFixture[] = []
after(async () => {
  for (const one of closing) await one.close()
})

/** Moves bytes on several connections for a while, and gives what arrived on each side. */
async function move(
  bandwidthBytes: number | undefined,
): Promise<{ up: number; down: number; seconds: number }> {
  const stage = await EgressFixture.open({
    policy: testPolicy(['example.com:7']),
    ...(bandwidthBytes !== undefined && { spec: { bandwidthBytes } }),
  })
  closing.push(stage)
  stage.name('example.com', ['192.0.2.10'])
  let up = 0
  const chunk = Buffer.alloc(64 * 1024, 1)
  await stage.place(
    '192.0.2.10',
    7,
    createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (data) => (up += data.length))
      const fill = (): void => {
        while (socket.write(chunk));
      }
      socket.on('drain', fill)
      fill()
    }),
  )
  const startedAt = performance.now()
  let down = 0
  const sockets = await Promise.all(
    [1, 2, 3].map(async () => {
      const socket = await stage.podd.proxy()
      socket.write('CONNECT example.com:7 HTTP/1.1\r\nHost: example.com:7\r\n\r\n')
      await readUntil(socket, '\r\n\r\n')
      const fill = (): void => {
        while (socket.write(chunk));
      }
      socket.on('drain', fill)
      socket.on('error', () => undefined)
      fill()
      socket.on('data', (data: Buffer) => (down += data.length))
      socket.resume()
      return socket
    }),
  )
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const seen = { up, down, seconds: (performance.now() - startedAt) / 1000 }
  for (const socket of sockets) socket.destroy()
  return seen
}

test('LIFE-5 outgoing connections of a sandbox together move at most its bandwidth in each direction', async () => {
  const limited = await move(RATE)
  const most = RATE * limited.seconds + BURST
  // The time is measured around everything that counts, so a slow machine only raises the bound.
  assert.ok(limited.up <= most, `${limited.up} bytes up, of at most ${most}`)
  assert.ok(limited.down <= most, `${limited.down} bytes down, of at most ${most}`)
  assert.ok(limited.up > 0 && limited.down > 0, `${limited.up} up, ${limited.down} down`)
  // The control: without a limit the same connections move more.
  const free = await move(undefined)
  assert.ok(free.down > most || free.up > most, `${free.up} up and ${free.down} down`)
})
