import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryTree } from '../../testing/memory-tree.ts'
import {
  directoriesMatching,
  isWithin,
  nameMatches,
  nearestAbove,
  pathInProject,
  relativeTo,
} from './paths.ts'

describe('a path that a file names', () => {
  const rows: readonly (readonly [directory: string, path: string, found: string | undefined])[] = [
    ['', 'a/b', 'a/b'],
    ['x', './a//b/.', 'x/a/b'],
    ['x/y', '../a', 'x/a'],
    ['x', '..', ''],
    ['x', '../..', undefined],
    ['', '..', undefined],
    ['x', 'a/../../../b', undefined],
    ['', '/etc/passwd', undefined],
    ['', '~/x', undefined],
    ['', 'C:\\x', undefined],
    ['x', 'src\\A\\A.csproj', 'x/src/A/A.csproj'],
    ['x', '..\\..\\..\\y', undefined],
    ['', 'a\0b', undefined],
  ]
  for (const [directory, path, found] of rows)
    test(`${JSON.stringify(path)} from ${directory || 'the root'} is ${found ?? 'outside'}`, () =>
      assert.equal(pathInProject(directory, path), found))

  test('a path is made relative to a directory', () => {
    assert.equal(relativeTo('', 'a/b'), 'a/b')
    assert.equal(relativeTo('a', 'a/b'), 'b')
    assert.equal(relativeTo('a', 'a'), '.')
    assert.equal(relativeTo('a/b', 'a/c'), '../../a/c')
    assert.equal(isWithin('ab', 'a'), false)
    assert.equal(isWithin('a/b', 'a'), true)
  })
})

describe('a pattern', () => {
  const rows: readonly (readonly [name: string, pattern: string, is: boolean])[] = [
    ['abc', '*', true],
    ['abc', 'a*c', true],
    ['abc', 'a?c', true],
    ['abc', 'a?', false],
    ['abc', '*b', false],
    ['', '*', true],
    ['', '?', false],
    ['a.b', 'a.b', true],
    ['aXb', 'a.b', false],
  ]
  for (const [name, pattern, is] of rows)
    test(`${pattern} ${is ? 'means' : 'does not mean'} ${JSON.stringify(name)}`, () =>
      assert.equal(nameMatches(name, pattern), is))

  const tree = memoryTree({ m: '', 'a/m': '', 'a/b/m': '', 'a/b/c/m': '', 'z/m': '', 'a/n': '' })
  const directories: readonly (readonly [pattern: string, found: readonly string[]])[] = [
    ['a', ['a']],
    ['a/*', ['a/b']],
    ['a/**', ['a', 'a/b', 'a/b/c']],
    ['**/c', ['a/b/c']],
    ['*', ['a', 'z']],
    ['gone', []],
    ['../*', []],
    ['.', ['']],
  ]
  for (const [pattern, found] of directories)
    test(`${pattern} means the directories ${found.join(', ') || 'none'}`, () =>
      assert.deepEqual(directoriesMatching(tree, '', pattern, 'm'), found))

  test('a pattern of only stars takes no time', () =>
    assert.equal(nameMatches('a'.repeat(2000), `${'*a'.repeat(500)}b`), false))
})

test('a file is looked for upwards, the nearest first', () => {
  const tree = memoryTree({ x: '', 'a/y': '', 'a/b/c': '' })
  assert.equal(nearestAbove(tree, 'a/b', ['x', 'y']), 'a/y')
  assert.equal(nearestAbove(tree, 'a/b', ['x']), 'x')
  assert.equal(nearestAbove(tree, 'a/b', ['z']), undefined)
})
