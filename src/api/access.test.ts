import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { SandboxId } from '../core/id.ts'
import { access, isExpired, isSame, isSigned, type SignedFile, signature } from './access.ts'

const ID = 'abcdefgh12345678' as SandboxId

test('tokens are bound to the server, the sandbox and the purpose', () => {
  const one = access('secret')
  const tokens = [
    one.dataToken(ID),
    one.trafficToken(ID),
    one.dataToken('other' as SandboxId),
    access('other secret').dataToken(ID),
  ]
  assert.equal(new Set(tokens).size, 4)
  assert.equal(one.dataToken(ID), access('secret').dataToken(ID))
  for (const token of tokens) assert.match(token, /^[0-9a-f]{64}$/)
})

test('only the same text is the same', () => {
  assert.ok(isSame('token', 'token'))
  for (const given of [undefined, '', 'toke', 'token ', 'Token', 'tokenn', 'token\0'])
    assert.ok(!isSame(given, 'token'))
})

describe('a signature', () => {
  const file: SignedFile = {
    path: '/home/user/a.txt',
    operation: 'read',
    user: 'user',
    expiration: '1900000000',
  }

  // From E2B's own recipe: v1_ and the SHA-256 of path:operation:user:token[:expiration] in base64 without padding.
  test('is what E2B’s SDK makes', () => {
    assert.equal(signature(file, 'token'), 'v1_LotcNTK3aCMdVzlnqxyNW2dVe4sOs5k97urA+C2cIYk')
    assert.equal(
      signature({ ...file, expiration: undefined }, 'token'),
      'v1_tE6x2QqeKriEoa6iRhiX5fCKcheLopDKKcPNfXl08qs',
    )
    assert.equal(
      signature({ path: '/a', operation: 'write', user: '', expiration: undefined }, 'token'),
      'v1_OgKahvkOCJDNPE838bX819/ZGm4Wa5ORAEZH6pTP45U',
    )
  })

  const NOW = 1_899_999_999_000
  test('holds for one file, operation, user, token and time', () => {
    const given = signature(file, 'token')
    assert.ok(isSigned(file, given, 'token'))
    assert.ok(!isSigned(file, given, 'other'))
    assert.ok(!isSigned({ ...file, path: '/home/user/b.txt' }, given, 'token'))
    assert.ok(!isSigned({ ...file, operation: 'write' }, given, 'token'))
    assert.ok(!isSigned({ ...file, user: 'root' }, given, 'token'))
    assert.ok(!isSigned({ ...file, expiration: '1900000001' }, given, 'token'))
    assert.ok(!isSigned({ ...file, expiration: undefined }, given, 'token'))
  })

  test('ends when it says', () => {
    const given = signature(file, 'token')
    assert.ok(isSigned(file, given, 'token'))
    assert.ok(!isExpired(file, NOW))
    assert.ok(!isExpired(file, 1_900_000_000_999), 'good to the end of the second it names')
    assert.ok(isExpired(file, 1_900_000_001_000))
    for (const expiration of ['', 'x', 'NaN', '-1', '0']) {
      assert.ok(isExpired({ ...file, expiration }, NOW), expiration)
    }
  })

  test('of a path with colons is not that of another path for another user', () => {
    const long: SignedFile = { path: '/x:write:user', operation: 'read', user: '', expiration: undefined }
    const given = signature(long, 'token')
    const other: SignedFile = { path: '/x', operation: 'write', user: 'user:read:', expiration: undefined }
    assert.equal(given, signature(other, 'token'), 'the control: the recipe alone does not tell them apart')
    assert.ok(isSigned(long, given, 'token'))
    assert.ok(!isSigned(other, given, 'token'))
  })
})
