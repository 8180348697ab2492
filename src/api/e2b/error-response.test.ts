import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { AgentPodError, type ErrorCode } from '../../core/error.ts'
import { e2bError, isE2bPath } from './error-response.ts'
import { unsupportedRoute } from './unsupported.ts'

const failure = (code: ErrorCode, reason = 'x'): AgentPodError =>
  new AgentPodError({ code, reason, message: 'what', hint: 'do this' })

test('the body of an E2B error has the status and a message', () =>
  assert.deepEqual(e2bError(failure('not_found')), { code: 404, message: 'what (do this)' }))

describe('the status of', () => {
  const STATUS: readonly [ErrorCode, number][] = [
    ['invalid_argument', 400],
    ['unauthenticated', 401],
    ['permission_denied', 403],
    ['not_found', 404],
    ['conflict', 409],
    ['unsupported', 400],
    ['failed_precondition', 400],
    ['resource_exhausted', 429],
    ['unavailable', 503],
    ['internal', 500],
  ]
  for (const [code, status] of STATUS) {
    test(`E2B’s status of ${code} is ${status}`, () => assert.equal(e2bError(failure(code)).code, status))
  }
  test('E2B’s status of an unsupported route is 501', () =>
    assert.equal(e2bError(unsupportedRoute('pausing')).code, 501))
})

test('an E2B error hides the details of an internal failure', () => {
  const { message } = e2bError(new Error('the password is 1234'), 'abc')
  assert.match(message, /incident abc/)
  assert.doesNotMatch(message, /1234/)
})

test('every path that is not AgentPod’s own is E2B’s', () => {
  for (const path of ['/sandboxes', '/v2/sandboxes', '/v3/templates', '/volumes/a', '/files', '/v10'])
    assert.ok(isE2bPath(path), path)
  for (const path of ['/v1/sandboxes', '/v1', '/health', '/docs', '/openapi.json', '/'])
    assert.ok(!isE2bPath(path), path)
})
