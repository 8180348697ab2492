import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearest } from './nearest.ts'

const KNOWN = ['memory', 'name', 'base', 'pids', 'label', 'timeout']

const CASES: readonly [word: string, expected: string | undefined, why: string][] = [
  ['memory', 'memory', 'the word itself'],
  ['memroy', 'memory', 'two neighbours swapped'],
  ['memor', 'memory', 'a letter missing'],
  ['memoryy', 'memory', 'a letter too many'],
  ['nam', 'name', 'a short word with one edit'],
  ['nx', undefined, 'a short word with two edits'],
  ['tiemuot', 'timeout', 'two swaps in a long word'],
  ['zzzzzz', undefined, 'nothing is close'],
  ['', undefined, 'no word'],
  ['m'.repeat(500), undefined, 'an absurdly long word'],
]

for (const [word, expected, why] of CASES) {
  test(`${why}: ${JSON.stringify(word.slice(0, 12))} gives ${expected}`, () => {
    assert.equal(nearest(word, KNOWN), expected)
  })
}

test('nearest returns the closest of several close words', () => {
  assert.equal(nearest('labels', ['labelled', 'label', 'lapels']), 'label')
})

test('nearest returns undefined without known words', () => {
  assert.equal(nearest('word', []), undefined)
})
