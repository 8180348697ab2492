import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseE2bDomain } from './e2b-domain.ts'

test('a name below localhost, with or without a port', () => {
  assert.deepEqual(parseE2bDomain('e2b.localhost'), { domain: 'e2b.localhost', port: 8443 })
  assert.deepEqual(parseE2bDomain('My.Box.Localhost:9000'), { domain: 'my.box.localhost', port: 9000 })
})

test('anything else is refused', () => {
  for (const text of [
    '',
    'localhost',
    'localhost:1',
    'example.org',
    'a.localhost.org',
    '-a.localhost',
    'a.localhost:70000',
    'a b.localhost',
    '*.localhost',
  ])
    assert.throws(() => parseE2bDomain(text), /--e2b-domain/, text)
})
