import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { objectAt, valueAt } from '../../../util/untrusted-json.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { iniAt, readIniFile } from './ini-file.ts'
import {
  lineOf,
  readJsoncFile,
  readJsonFile,
  readTomlFile,
  shortQuote,
  textAt,
  versionText,
} from './parsed-file.ts'
import { readYamlFile } from './yaml-file.ts'

describe('a file', () => {
  test('a file is read without a byte order mark and with plain line ends', () => {
    const tree = memoryTree({ 'a.json': '\uFEFF{\r\n"a": 1\r\n}' })
    assert.deepEqual(readJsonFile(tree, 'a.json'), { text: '{\n"a": 1\n}', data: { a: 1 } })
  })

  test('a malformed file has no data and a problem', () => {
    const tree = memoryTree({
      'a.json': '{',
      'b.json': '{ "a": }',
      'c.toml': 'a = ',
      'd.yml': 'a: [',
      'e.json': '[]',
    })
    for (const read of [
      readJsonFile(tree, 'a.json'),
      readJsoncFile(tree, 'b.json'),
      readTomlFile(tree, 'c.toml'),
      readYamlFile(tree, 'd.yml'),
      readJsonFile(tree, 'e.json'),
    ]) {
      assert.deepEqual(read?.data, {})
      assert.match(read?.problem ?? '', /^[ -~]{5,120}$/)
    }
    assert.equal(readJsonFile(tree, 'gone.json'), undefined)
  })

  test('JSON files may have comments where that is usual', () => {
    const tree = memoryTree({ a: '{ // x\n "a": [1,], }' })
    assert.deepEqual(readJsoncFile(tree, 'a')?.data, { a: [1] })
    assert.notEqual(readJsonFile(tree, 'a')?.problem, undefined)
  })

  test('YAML values are text and know their lines', () => {
    const yaml = readYamlFile(memoryTree({ a: 'x: &x\n  v: 3.10\ny:\n  <<: *x\n  list: [1, true]\n' }), 'a')
    assert.deepEqual(yaml?.data, { x: { v: '3.10' }, y: { v: '3.10', list: ['1', 'true'] } })
    assert.equal(yaml?.lineAt(['y', 'list', 1]), 5)
    assert.equal(yaml?.lineAt(['y', 'gone', 'x']), undefined)
  })

  test('a file is parsed once for each reader', () => {
    let count = 0
    const reader = (text: string): string => `${text}${++count}`
    const tree = memoryTree({ a: 'a', b: 'b' })
    assert.deepEqual(
      [tree.readAs('a', reader), tree.readAs('b', reader), tree.readAs('a', reader)],
      ['a1', 'b2', 'a1'],
    )
    assert.equal(tree.readAs('gone', reader), undefined)
  })

  test('an INI file has values of several lines', () => {
    const tree = memoryTree({
      a: '# c\n[one]\nkey = a\n    b\n\n    ; c\n    d\nother: 1\n[two:x]\nkey=\n  z\nlost\n',
    })
    const ini = readIniFile(tree, 'a')
    assert.deepEqual(iniAt(ini, 'one', 'key'), { text: 'a\nb\nd', line: 3 })
    assert.deepEqual(iniAt(ini, 'one', 'other'), { text: '1', line: 8 })
    assert.deepEqual(iniAt(ini, 'two:x', 'key'), { text: 'z', line: 10 })
    assert.equal(iniAt(ini, 'two:x', 'lost'), undefined)
  })
})

describe('inherited properties', () => {
  test('inherited properties of an object are never read', () => {
    const read = readJsonFile(memoryTree({ a: '{"__proto__":{"x":"y"},"b":{}}' }), 'a')
    assert.equal(valueAt(read?.data, 'b', 'constructor'), undefined)
    assert.equal(textAt(read?.data, 'toString'), undefined)
    assert.deepEqual({ ...objectAt(read?.data, 'hasOwnProperty') }, {})
    assert.equal(({} as Record<string, unknown>)['x'], undefined)
  })
})

test('a quote is one short line that a terminal can show', () => {
  assert.equal(shortQuote(' a\n  b\u001b[31m\u202e '), 'a b?[31m?')
  assert.equal(shortQuote('x'.repeat(1e6)).length, 80)
})

test('a line is found by words one after another', () => {
  assert.equal(lineOf('a\nb\na\nc', 'b', 'a'), 3)
  assert.equal(lineOf('a\nb', 'b', 'a'), undefined)
  assert.equal(lineOf(''), undefined)
})

test('a word for a shell stands for itself', () => {
  assert.equal(shellWord('-r'), '-r')
  assert.equal(shellWord("a'b $c"), `'a'\\''b $c'`)
  assert.equal(shellWord(''), `''`)
})

test('a version is nothing that could be anything', () => {
  for (const version of ['20', '>=18 <21 || ^22', 'lts/*', '3.10.*', '~=3.9, !=3.9.1'])
    assert.equal(versionText(version), version)
  for (const other of ['$(x)', 'a"b', 'a\nb', 'x'.repeat(101), '', undefined, {}, '20; x'])
    assert.equal(versionText(other), undefined)
  assert.equal(versionText(21), '21')
})
