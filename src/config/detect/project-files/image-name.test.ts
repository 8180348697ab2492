import assert from 'node:assert/strict'
import { test } from 'node:test'
import { imageName, tagVersion } from './image-name.ts'

test('an image has a name and a tag', () => {
  const rows: readonly (readonly [written: string, name: string | undefined, tag?: string])[] = [
    ['postgres', 'postgres', ''],
    ['postgres:16-alpine', 'postgres', '16-alpine'],
    ['docker.example.com/bitnami/redis:7', 'bitnami/redis', '7'],
    ['localhost:5000/node:20@sha256:00', 'node', '20'],
    ['library/mysql:8', 'mysql', '8'],
    [`postgres:\${TAG:-15}`, 'postgres', '15'],
    [`\${IMAGE:-redis:7.2}`, 'redis', '7.2'],
    [`\${IMAGE}`, undefined],
    ['', undefined],
  ]
  for (const [written, name, tag] of rows)
    assert.deepEqual(imageName(written), name === undefined ? undefined : { name, tag }, written)
})

test('a tag begins with a version, or has none', () => {
  assert.equal(tagVersion('16.3-alpine'), '16.3')
  assert.equal(tagVersion('v1.7'), '1.7')
  assert.equal(tagVersion('8'), '8')
  for (const tag of ['latest', '', 'bookworm', '3x']) assert.equal(tagVersion(tag), undefined, tag)
})
