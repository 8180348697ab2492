import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isExpired, isSigned, type SignedFile, signature } from './signed-file.ts'

describe('a signed file address', () => {
  const file: SignedFile = {
    path: '/home/user/a.txt',
    operation: 'read',
    user: 'user',
    expiration: '1900000000',
  }

  // From E2B's own recipe: v1_ and the SHA-256 of path:operation:user:token[:expiration] in base64 without
  // padding.
  test('a signature is the one that E2B’s SDK makes', () => {
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
  test('a signature holds for one file, operation, user, token and time', () => {
    const given = signature(file, 'token')
    assert.ok(isSigned(file, given, 'token'))
    assert.ok(!isSigned(file, given, 'other'))
    assert.ok(!isSigned({ ...file, path: '/home/user/b.txt' }, given, 'token'))
    assert.ok(!isSigned({ ...file, operation: 'write' }, given, 'token'))
    assert.ok(!isSigned({ ...file, user: 'root' }, given, 'token'))
    assert.ok(!isSigned({ ...file, expiration: '1900000001' }, given, 'token'))
    assert.ok(!isSigned({ ...file, expiration: undefined }, given, 'token'))
  })

  test('a signature expires after the second it names', () => {
    const given = signature(file, 'token')
    assert.ok(isSigned(file, given, 'token'))
    assert.ok(!isExpired(file, NOW))
    assert.ok(!isExpired(file, 1_900_000_000_999), 'good to the end of the second it names')
    assert.ok(isExpired(file, 1_900_000_001_000))
    for (const expiration of ['', 'x', 'NaN', '-1', '0']) {
      assert.ok(isExpired({ ...file, expiration }, NOW), expiration)
    }
  })

  test('a signature of a path with colons does not fit another path and user', () => {
    const long: SignedFile = { path: '/x:write:user', operation: 'read', user: '', expiration: undefined }
    const given = signature(long, 'token')
    const other: SignedFile = { path: '/x', operation: 'write', user: 'user:read:', expiration: undefined }
    assert.equal(given, signature(other, 'token'), 'the control: the recipe alone does not tell them apart')
    assert.ok(isSigned(long, given, 'token'))
    assert.ok(!isSigned(other, given, 'token'))
  })
})
