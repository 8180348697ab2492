import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { parseIgnorePatterns } from './ignore-patterns.ts'

const ignored = (patterns: string, ...paths: string[]): string[] =>
  paths.filter((path) => parseIgnorePatterns(patterns, '.dockerignore').isIgnored(path))

test('a pattern matches a path from the root of the context, and what is below it', () => {
  assert.deepEqual(ignored('build\n', 'build', 'build/x', 'src/build', 'builds'), ['build', 'build/x'])
  assert.deepEqual(ignored('/top/\n', 'top', 'top/x', 'a/top'), ['top', 'top/x'])
  assert.deepEqual(ignored('./a/../b\n', 'a', 'b'), ['b'])
})

test('wildcards stay in one directory, and ** does not', () => {
  assert.deepEqual(ignored('*.md\n', 'a.md', 'd/a.md'), ['a.md'])
  assert.deepEqual(ignored('**/*.md\n', 'a.md', 'd/e/a.md', 'a.mdx'), ['a.md', 'd/e/a.md'])
  assert.deepEqual(ignored('a/**\n', 'a', 'a/b', 'a/b/c'), ['a/b', 'a/b/c'])
  assert.deepEqual(ignored('?.[ab]\n', 'x.a', 'xx.a', 'x.c'), ['x.a'])
  assert.deepEqual(ignored('*\n', 'a', 'b/c'), ['a', 'b/c'])
  assert.deepEqual(ignored('a.b\n', 'a.b', 'axb'), ['a.b'])
})

test('the last match decides', () => {
  assert.deepEqual(ignored('*\n!keep\n', 'keep', 'keep/x', 'drop'), ['drop'])
  assert.deepEqual(ignored('!keep\n*\n', 'keep'), ['keep'])
  assert.deepEqual(ignored('docs/*.md\n!docs/README.md\n', 'docs/a.md', 'docs/README.md'), ['docs/a.md'])
})

test('comments, empty lines and spaces around patterns have no meaning', () => {
  assert.deepEqual(ignored('# a\n\n  b  \r\n', '# a', 'a', 'b'), ['b'])
})

test('a malformed pattern is an error with its line', () => {
  for (const text of ['a\n[b\n', 'a\n!\n', 'a\nb\\'])
    assert.throws(
      () => parseIgnorePatterns(text, '.dockerignore'),
      (error) => isAgentPodError(error, 'invalid_argument') && error.message.startsWith('.dockerignore:2: '),
    )
})
