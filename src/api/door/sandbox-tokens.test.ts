import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxId } from '../../core/id.ts'
import { isSameToken, sandboxTokens } from './sandbox-tokens.ts'

const ID = 'abcdefgh12345678' as SandboxId

test('tokens are bound to the server, the sandbox and the purpose', () => {
  const one = sandboxTokens('secret')
  const tokens = [
    one.dataToken(ID),
    one.trafficToken(ID),
    one.dataToken('other' as SandboxId),
    sandboxTokens('other secret').dataToken(ID),
  ]
  assert.equal(new Set(tokens).size, 4)
  assert.equal(one.dataToken(ID), sandboxTokens('secret').dataToken(ID))
  for (const token of tokens) assert.match(token, /^[0-9a-f]{64}$/)
})

test('isSameToken accepts the same text only', () => {
  assert.ok(isSameToken('token', 'token'))
  for (const given of [undefined, '', 'toke', 'token ', 'Token', 'tokenn', 'token\0'])
    assert.ok(!isSameToken(given, 'token'))
})
