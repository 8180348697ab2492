import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isIgnored, isVendoredOrBuilt, ownFiles } from './ignored-directories.ts'

test('other people’s code and what builds leave behind never counts', () => {
  for (const directory of [
    'node_modules/a',
    'packages/a/node_modules/b',
    'vendor',
    'third_party/x',
    'dist',
    'a/target',
    '.venv/lib',
  ])
    assert.ok(isVendoredOrBuilt(directory) && isIgnored(directory), directory)
})

test('samples lie aside', () => {
  for (const directory of [
    'examples/a',
    'test/fixtures/b',
    'src/__fixtures__',
    'testdata',
    'tests/data/x',
    'templates/react',
  ])
    assert.ok(isIgnored(directory) && !isVendoredOrBuilt(directory), directory)
})

test('ordinary directories do not', () => {
  for (const directory of ['', 'src', 'packages/vendors', 'apps/web', 'test', 'data', 'builder/x'])
    assert.ok(!isIgnored(directory), directory)
})

test('what lies aside counts where there is nothing else', () => {
  assert.deepEqual(ownFiles(['a/go.mod', 'examples/b/go.mod', 'vendor/c/go.mod']), ['a/go.mod'])
  assert.deepEqual(ownFiles(['examples/b/go.mod', 'vendor/c/go.mod']), ['examples/b/go.mod'])
  assert.deepEqual(ownFiles(['vendor/c/go.mod']), [])
})
