import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clip, clipOutput } from './clip.ts'
import { lineCounts, patchCounts } from './line-counts.ts'
import { workspacePath } from './workspace-path.ts'

test('lines that occur more often than before count as added, less often as removed', () => {
  for (const [before, after, added, removed] of [
    ['', '', 0, 0],
    ['', 'a\nb\n', 2, 0],
    ['a\nb', '', 0, 2],
    ['a\nb\nc\n', 'a\nx\nc\n', 1, 1],
    ['a\na\n', 'a\n', 0, 1],
    ['a\n', 'a', 0, 0],
  ] as const)
    assert.deepEqual(lineCounts(before, after), { added, removed }, JSON.stringify([before, after]))
  assert.deepEqual(patchCounts('--- a\n+++ b\n@@ -1 +1,2 @@\n-x\n+y\n+z\n same\n'), { added: 2, removed: 1 })
})

test('paths are shown relative to the workspace', () => {
  for (const [path, shown] of [
    ['/home/user/w/a/b.js', 'a/b.js'],
    ['a/./b.js', 'a/b.js'],
    ['../x', '/home/user/x'],
    ['/home/user/w', '.'],
    ['/home/user/w2/x', '/home/user/w2/x'],
    ['/etc/passwd', '/etc/passwd'],
    ['a\r\nb', 'a\uFFFD\uFFFDb'],
  ] as const)
    assert.equal(workspacePath(path, '/home/user/w'), shown)
})

test('truncated text says so, and no character is split', () => {
  assert.equal(clip('abc', 3), 'abc')
  assert.equal(clip('abcd', 3), 'ab…')
  assert.equal(clip('a😀b', 3), 'a…')
  const cut = clipOutput(`begin${'x'.repeat(1000)}end`, 100)
  assert.match(cut, /^begin/)
  assert.match(cut, /908 characters left out/)
  assert.match(cut, /end$/)
})
