import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { errorFrom, Transport } from './transport.ts'

let directory = ''
let socket = ''
let servers: Server[] = []
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-transport-'))
  socket = join(directory, 'api.sock')
})
afterEach(async () => {
  for (const server of servers) {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  servers = []
  rmSync(directory, { recursive: true })
})

async function serve(listener: RequestListener): Promise<void> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(socket, resolve))
}

test('a server that does not listen is unavailable, with a hint', async () => {
  const transport = new Transport({ socket })
  await assert.rejects(
    transport.json('GET', '/health'),
    (error) => isAgentPodError(error, 'unavailable') && error.hint !== undefined,
  )
})

test('revive is called once when no server listens, and the request is sent again', async () => {
  let revived = 0
  const transport = new Transport({
    socket,
    revive: async () => {
      revived++
      await serve((_, response) => response.end('{"ok":true}'))
    },
  })
  assert.deepEqual(await transport.json('POST', '/x', { a: 1 }), { ok: true })
  assert.equal(revived, 1)
  transport.close()
})

test('a repeatable request is sent again when the server had closed the kept-alive connection', async () => {
  let connections = 0
  await serve((request, response) => {
    // The second request on a connection is never answered: the server has let go of it.
    const isSecond = Reflect.get(request.socket, 'isUsed') === true
    Reflect.set(request.socket, 'isUsed', true)
    if (isSecond) request.socket.destroy()
    else response.end('{}')
  })
  servers[0]?.on('connection', () => connections++)
  const transport = new Transport({ socket })
  await transport.json('GET', '/a')
  await transport.json('GET', '/b')
  assert.equal(connections, 2)
  await transport.json('POST', '/start', {}, { isRepeatable: true })
  assert.equal(connections, 3)
  await assert.rejects(transport.json('POST', '/c', {}), (error) => isAgentPodError(error, 'unavailable'))
  transport.close()
})

describe('an error body', () => {
  const BODIES: readonly [name: string, text: string, code: string, reason: string][] = [
    ['of ours', '{"error":{"code":"conflict","reason":"a.b","message":"m"}}', 'conflict', 'a.b'],
    ['of the guest', '{"code":"not_found","message":"m"}', 'not_found', 'guest'],
    ['of a guest that lacks the call', '{"code":"unimplemented","message":"m"}', 'unsupported', 'guest'],
    ['of a code nobody knows', '{"code":"weird"}', 'internal', 'guest'],
    ['that is not JSON', '<html>', 'internal', 'guest'],
    ['that is empty', '', 'internal', 'guest'],
  ]
  for (const [name, text, code, reason] of BODIES) {
    test(`an error body ${name} becomes ${code}`, () => {
      const error = errorFrom(500, text)
      assert.deepEqual([error.code, error.reason], [code, reason])
    })
  }

  for (const text of ['null', '7', '"text"', '[]', '{"error":null}', '{"error":"text"}', '{"details":7}']) {
    test(`the malformed error body ${text} becomes an internal error`, () =>
      assert.equal(errorFrom(500, text).code, 'internal'))
  }
})
