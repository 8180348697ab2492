import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { type Duplex, PassThrough } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { forwardNear, forwardPort } from './forward-port.ts'

/** A sandbox in which every port but 8 answers with what it hears. */
const sandbox = {
  async dial(port: number): Promise<Duplex> {
    if (port === 8) throw new Error('nobody listens')
    return new PassThrough()
  },
}

async function say(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.end(text)
  const heard: Buffer[] = []
  for await (const piece of socket) heard.push(piece as Buffer)
  return Buffer.concat(heard).toString()
}

describe('a port of a sandbox', () => {
  let taken: Server
  before(async () => {
    taken = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => taken.once('listening', resolve))
  })
  after(() => void taken.close())

  test('is brought to this machine, and only here', async () => {
    using forward = await forwardPort(sandbox, 7, 0)
    assert.equal(await say(forward.port, 'hello'), 'hello')
    assert.equal(await say(forward.port, 'again'), 'again')
  })

  test('that nobody listens on ends each connection', async () => {
    using forward = await forwardPort(sandbox, 8, 0)
    assert.equal(await say(forward.port, 'hello').catch(() => ''), '')
  })

  test('is not had where another program listens', async () => {
    const { port } = taken.address() as AddressInfo
    await assert.rejects(
      forwardPort(sandbox, 7, port),
      (error) => isAgentPodError(error, 'failed_precondition') && error.reason === 'port.taken',
    )
  })

  test('takes the next port where its own is taken', async () => {
    const { port } = taken.address() as AddressInfo
    using forward = await forwardNear(sandbox, port)
    assert.notEqual(forward.port, port)
    assert.equal(await say(forward.port, 'hello'), 'hello')
  })

  test('is given up at the end, with the connections that are open', async () => {
    const forward = await forwardPort(sandbox, 7, 0)
    const socket = connect(forward.port, '127.0.0.1')
    socket.on('error', () => undefined)
    await new Promise((resolve) => socket.once('connect', resolve))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    forward[Symbol.dispose]()
    await closed
    await assert.rejects(say(forward.port, 'hello'), /ECONNREFUSED/)
  })
})
