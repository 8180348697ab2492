import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { socketPath } from './socket-path.ts'

test('a socket path that fits is not changed', () => {
  const path = `/${'a'.repeat(106)}`
  assert.equal(socketPath(path), path)
})

test('the limit of a socket path counts bytes, not characters', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-socket-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'ü'.repeat(50))
  assert.ok(path.length <= 107)
  assert.match(socketPath(path), /^\/proc\/self\/fd\/\d+\/ü+$/)
})

test('a server can listen and be reached on a socket path that is too long', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'agentpod-socket-'))
  t.after(() => rmSync(root, { recursive: true }))
  const directory = join(root, 'd'.repeat(120))
  mkdirSync(directory)
  const path = join(directory, 'api.sock')
  const server = createServer((socket) => socket.end('hello'))
  await new Promise<void>((resolve) => server.listen(socketPath(path), resolve))
  t.after(() => server.close())
  const heard = await new Promise<string>((resolve, reject) => {
    let text = ''
    connect(socketPath(path))
      .on('data', (chunk) => {
        text += chunk
      })
      .on('end', () => resolve(text))
      .on('error', reject)
  })
  assert.equal(heard, 'hello')
  assert.equal(socketPath(path), socketPath(path))
})
