import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHangUp } from './process-guard.ts'

test('a closed connection is ignored by the process guard, any other error is not', () => {
  for (const code of ['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR'])
    assert.ok(isHangUp(Object.assign(new Error('x'), { code })), code)
  for (const error of [
    new Error('x'),
    new TypeError('x'),
    undefined,
    null,
    'ECONNRESET',
    { code: 7 },
    { code: 'ENOSPC' },
  ])
    assert.ok(!isHangUp(error))
})
