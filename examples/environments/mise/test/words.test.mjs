import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

test('the task that the tests depend on has run', () => {
  assert.deepEqual(JSON.parse(readFileSync('words.json', 'utf8')), ['one', 'two', 'hello'])
})
