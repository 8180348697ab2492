import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { checkTag } from './dockerfile-builder.ts'

test('IM-09 only an admin stores an image under a name', () => {
  const others = { who: { owner: 'key', isAdmin: false } }
  assert.throws(
    () => checkTag('debian:12', others),
    (error) => isAgentPodError(error, 'permission_denied'),
  )
  // The control: an admin may.
  checkTag('debian:12', { who: { owner: 'local', isAdmin: true } })
})

test('an image is stored under a tag, not under a digest', () => {
  const admin = { who: { owner: 'local', isAdmin: true } }
  assert.throws(
    () => checkTag(`debian@sha256:${'0'.repeat(64)}`, admin),
    (error) => isAgentPodError(error, 'invalid_argument'),
  )
})
