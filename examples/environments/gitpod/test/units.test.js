import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

test('init has built the table', () => {
  const { h } = JSON.parse(readFileSync('dist/units.json', 'utf8'))
  assert.equal(h, 3_600_000)
})

test('before has run at the start', () => {
  assert.equal(readFileSync('.state/log', 'utf8'), 'started\n')
})
