/** CP-16 at its full size: five thousand slow clients at once. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { rawRequest } from '../support/raw-http.ts'
import { tcpRequest } from '../support/tcp.ts'
import { until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const CLIENTS = 5000

test('CP-16 five thousand slow clients are cut, the unix socket answers all the while, and nothing stays open', async () => {
  const client = world.client()
  await client.list()
  const { port } = await client.listen()
  const descriptors = (): number => readdirSync(`/proc/${world.serverPid}/fd`).length
  const earlier = descriptors()
  const open = new Set<Socket>()
  for (let i = 0; i < CLIENTS; i++) {
    const slow = connect(port, '127.0.0.1')
    slow
      .on('error', () => undefined)
      .on('close', () => open.delete(slow))
      .resume()
    slow.write(
      i % 2 === 0
        ? 'GET / HTTP/1.1\r\n'
        : 'POST /v1/keys HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n',
    )
    open.add(slow)
    if (i % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const drip = setInterval(() => {
    for (const slow of open) if (slow.writable) slow.write('x')
  }, 1000)
  const { status } = await rawRequest({
    socket: join(world.home, 'run', 'api.sock'),
    method: 'GET',
    path: '/health',
  })
  assert.equal(status, 204)
  await until('the slow are gone', () => open.size === 0, 60_000)
  clearInterval(drip)
  assert.equal((await tcpRequest({ port, path: '/health' })).status, 204)
  await until('their descriptors are free', () => descriptors() <= earlier + 5)
})
