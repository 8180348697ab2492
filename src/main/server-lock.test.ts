import assert from 'node:assert/strict'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { homeAt } from '../core/home.ts'
import { lockServer } from './server-lock.ts'

test('a client that reads the name of the server while another one starts finds a whole file', () => {
  const root = mkdtempSync(join(tmpdir(), 'agentpod-lock-'))
  try {
    const home = homeAt(root)
    mkdirSync(home.run)
    lockServer(home, { pid: 11, version: '1.0.0', build: undefined }).release()
    const reader = openSync(home.serverFile, 'r')
    lockServer(home, { pid: 12, version: '1.0.0', build: undefined }).release()
    assert.deepEqual(JSON.parse(readFileSync(reader, 'utf8')), { pid: 11, version: '1.0.0' })
    assert.deepEqual(JSON.parse(readFileSync(home.serverFile, 'utf8')), { pid: 12, version: '1.0.0' })
    closeSync(reader)
  } finally {
    rmSync(root, { recursive: true })
  }
})
