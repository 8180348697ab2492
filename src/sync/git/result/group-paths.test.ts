import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groupPaths } from './group-paths.ts'

test('a short list of paths stays as it is', () => {
  assert.deepEqual(groupPaths(['a/b/c', 'd'], 2), ['a/b/c', 'd'])
})

test('of a long list of paths, the deepest are replaced by their directories', () => {
  const paths = ['x/y/1', 'x/y/2', 'x/y/3', 'x/z', 'top']
  assert.deepEqual(groupPaths(paths, 3), ['x/y', 'x/z', 'top'])
  assert.deepEqual(groupPaths(paths, 2), ['x', 'top'])
})

test('a path inside a directory of the list is left out', () => {
  assert.deepEqual(groupPaths(['a/b/1', 'a/b/2', 'a/b/3', 'a/b/c/1', 'a/b/c/2', 'd/e'], 3), ['a/b', 'd/e'])
})

test('paths that only the top contains give an empty list', () => {
  assert.deepEqual(groupPaths(['a', 'b', 'c'], 2), [])
})

test('a thousand files of ten directories become ten directories', () => {
  const paths = Array.from({ length: 1000 }, (_, n) => `src/part-${n % 10}/file-${n}.ts`)
  assert.equal(groupPaths(paths).length, 10)
})
