import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AgentPodError,
  asAgentPodError,
  ERROR_CODES,
  invalid,
  isAgentPodError,
  isErrorCode,
} from './error.ts'

test('every error code has a fault, and only unavailable may be retried', () => {
  for (const code of ERROR_CODES) {
    const error = new AgentPodError({ code, reason: 'r', message: 'm' })
    assert.ok(['caller', 'provider', 'system'].includes(error.fault))
    assert.equal(error.retry, code === 'unavailable' ? 'yes' : 'no')
  }
})

test('an error of another copy of the package is recognised by its brand', () => {
  const foreign = { [Symbol.for('agentpod.error')]: true, code: 'not_found' }
  assert.ok(isAgentPodError(foreign))
  assert.ok(isAgentPodError(foreign, 'not_found'))
  assert.equal(isAgentPodError(foreign, 'conflict'), false)
})

for (const other of [null, undefined, 'text', 7, {}, new Error('x'), { code: 'not_found' }]) {
  test(`${String(other)} is not an AgentPodError`, () => assert.equal(isAgentPodError(other), false))
}

test('an unknown error becomes internal and keeps its cause', () => {
  const cause = new TypeError('oops')
  const error = asAgentPodError(cause)
  assert.equal(error.code, 'internal')
  assert.equal(error.message, 'oops')
  assert.equal(error.cause, cause)
  assert.equal(asAgentPodError('words').message, 'words')
})

test('an AgentPodError is passed through unchanged', () => {
  const error = invalid('a.b', 'wrong', 'do this')
  assert.equal(asAgentPodError(error), error)
  assert.deepEqual([error.code, error.reason, error.hint], ['invalid_argument', 'a.b', 'do this'])
})

test('only the words of the closed list are error codes', () => {
  for (const code of ERROR_CODES) assert.ok(isErrorCode(code))
  for (const other of ['', 'unknown', 'toString', '__proto__', null, 5])
    assert.equal(isErrorCode(other), false)
})
