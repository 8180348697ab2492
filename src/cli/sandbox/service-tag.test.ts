import assert from 'node:assert/strict'
import { test } from 'node:test'
import { taggedService } from './service-tag.ts'

test('the tag of a process says which service it is, however often it was started', () => {
  assert.equal(taggedService('agentpod.service.postgres'), 'postgres')
  assert.equal(taggedService('agentpod.service.my-queue_2#14'), 'my-queue_2')
  for (const tag of [
    undefined,
    '',
    'postgres',
    'agentpod.service.',
    'agentpod.service.x\u001b[2J',
    'x.agentpod.service.y',
  ])
    assert.equal(taggedService(tag), undefined, tag)
})
