import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Duplex, PassThrough } from 'node:stream'
import { afterEach, beforeEach, test } from 'node:test'
import { silentLog } from '../telemetry/log.ts'
import { EgressRelay, type RelayOptions } from './egress-relay.ts'

let directory: string
let relay: EgressRelay

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-relay-'))
})
afterEach(() => {
  relay.close()
  rmSync(directory, { recursive: true, force: true })
})

async function dialed(dial: RelayOptions['dial']): Promise<Socket> {
  const path = join(directory, 'out.sock')
  relay = new EgressRelay({ path, dial, log: silentLog })
  // It listens from the next turn on.
  await new Promise((resolve) => setImmediate(resolve))
  const socket = connect(path)
  await once(socket, 'connect')
  return socket
}

/** A sandbox that says back what it hears. */
function echo(): Duplex {
  return new PassThrough()
}

test('a relay carries bytes both ways, through a socket that only the user can open', async () => {
  const socket = await dialed(async () => echo())
  socket.end('hello')
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  assert.equal(Buffer.concat(chunks).toString(), 'hello')
  assert.equal(statSync(relay.path).mode & 0o777, 0o600)
})

test('a relayed connection ends if the sandbox cannot be reached', async () => {
  const socket = await dialed(async () => {
    throw new Error('no way')
  })
  await once(socket, 'close')
})

test('a relayed stream that fails after its end does not end the process', async () => {
  const stream = echo()
  const socket = await dialed(async () => stream)
  socket.end('x')
  socket.resume()
  await once(socket, 'close')
  stream.emit('error', new Error('late'))
  await new Promise((resolve) => setImmediate(resolve))
})

test('a stream that the provider opens after the relay was closed is closed', async () => {
  const { promise, resolve } = Promise.withResolvers<Duplex>()
  const socket = await dialed(() => promise)
  socket.on('error', () => undefined)
  const closed = once(socket, 'close')
  await new Promise((next) => setTimeout(next, 20))
  relay.close()
  await closed
  const late = echo()
  resolve(late)
  await new Promise((next) => setImmediate(next))
  assert.ok(late.destroyed)
})
