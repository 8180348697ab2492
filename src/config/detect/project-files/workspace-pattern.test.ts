import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isMember, matchesPattern } from './workspace-pattern.ts'

test('patterns name directories', () => {
  const rows: readonly (readonly [pattern: string, directory: string, is: boolean])[] = [
    ['packages/*', 'packages/a', true],
    ['packages/*', 'packages/a/b', false],
    ['./packages/*/', 'packages/a', true],
    ['packages/**', 'packages/a/b', true],
    ['packages/**', 'packages', true],
    ['**', 'a/b/c', true],
    ['**/test/**', 'a/test/b', true],
    ['**/x', 'x', true],
    ['packages/a-*', 'packages/a-b', true],
    ['packages/?', 'packages/ab', false],
    ['{apps,libs}/*', 'libs/a', true],
    ['{apps,libs}/{a,b}', 'apps/b', true],
    ['apps/web', 'apps/web', true],
    ['apps/web', 'apps/web2', false],
    ['*', 'a', true],
    ['a.c', 'abc', false],
  ]
  for (const [pattern, directory, is] of rows)
    assert.equal(matchesPattern(directory, pattern), is, `${pattern} ${directory}`)
})

test('a later pattern overrules an earlier one', () => {
  assert.ok(isMember('a/b', ['a/*']))
  assert.ok(!isMember('a/b', ['a/*', '!a/b']))
  assert.ok(isMember('a/b', ['a/*', '!a/b', 'a/b']))
  assert.ok(!isMember('a/b', []))
})

test('patterns that other matchers take forever for are matched', () => {
  assert.ok(matchesPattern(`${'a/'.repeat(100)}b`, `${'**/'.repeat(160)}b`))
  assert.ok(!matchesPattern('a'.repeat(200), `${'*a'.repeat(200)}b`))
  assert.ok(!matchesPattern('x', '{a,b}'.repeat(90)))
})
