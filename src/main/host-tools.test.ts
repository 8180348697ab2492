import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { hostFingerprint } from './host-tools.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-tools-'))
after(() => rmSync(scratch, { recursive: true }))

test('the fingerprint of a machine changes with its tools, and with nothing else', () => {
  const bin = join(scratch, 'bin')
  mkdirSync(bin)
  const env = { PATH: `${bin}:${join(scratch, 'gone')}`, HOME: scratch }
  const look = (o: object = {}): string => hostFingerprint({ ...env, ...o })
  const before = look()
  assert.equal(look(), before)
  assert.equal(look({ EDITOR: 'vi' }), before)
  assert.notEqual(look({ PATH: bin }), before)
  writeFileSync(join(bin, 'node'), '')
  utimesSync(bin, 1, 1)
  const installed = look()
  assert.notEqual(installed, before, 'a program more')
  mkdirSync(join(scratch, '.nvm/versions/node/v22.1.0'), { recursive: true })
  const managed = look()
  assert.notEqual(managed, installed, 'a version more')
  mkdirSync(join(scratch, '.nvm/versions/node/v24.0.0'))
  utimesSync(join(scratch, '.nvm/versions/node'), 1, 1)
  assert.notEqual(look(), managed)
})

test('a machine without tools has a fingerprint', () => assert.match(hostFingerprint({}), /^[0-9a-f]{64}$/))
