import assert from 'node:assert/strict'
import { test } from 'node:test'
import { foldedName, foldedParts } from './folded-name.ts'

test('names that are the same on some file system fold to the same text', () => {
  for (const [name, folded] of [
    ['Makefile', 'makefile'],
    ['.GIT', '.git'],
    ['.git.', '.git'],
    ['.git. .', '.git'],
    ['a b', 'a b'],
    ['a b ', 'a b'],
    ['.', '.'],
    ['..', '..'],
    ['', ''],
    ['.g\u200cit', '.git'],
    ['\ufeffHEAD', 'head'],
    ['\u017fh', 'sh'],
    ['\u212aeys', 'keys'],
    ['e\u0301', '\u00e9'],
    ['[x]~1', '[x]~1'],
  ] as const)
    assert.equal(foldedName(name), folded, JSON.stringify(name))
  assert.deepEqual(foldedParts('A/./b.//C'), ['a', 'b', 'c'])
})
