import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shellWord } from '../../util/shell-word.ts'
import { memoryTree } from '../testing/memory-tree.ts'
import { iniAt, readIni } from './ini-file.ts'
import { at, lineOf, readJson, readJsonc, readToml, short, tableAt, textAt, versionText } from './reading.ts'
import { readYaml } from './yaml-file.ts'

describe('a file', () => {
  test('is read without its mark and with plain line ends', () => {
    const tree = memoryTree({ 'a.json': '\uFEFF{\r\n"a": 1\r\n}' })
    assert.deepEqual(readJson(tree, 'a.json'), { text: '{\n"a": 1\n}', data: { a: 1 } })
  })

  test('that is malformed holds nothing, and says why', () => {
    const tree = memoryTree({
      'a.json': '{',
      'b.json': '{ "a": }',
      'c.toml': 'a = ',
      'd.yml': 'a: [',
      'e.json': '[]',
    })
    for (const read of [
      readJson(tree, 'a.json'),
      readJsonc(tree, 'b.json'),
      readToml(tree, 'c.toml'),
      readYaml(tree, 'd.yml'),
      readJson(tree, 'e.json'),
    ]) {
      assert.deepEqual(read?.data, {})
      assert.match(read?.problem ?? '', /^[ -~]{5,120}$/)
    }
    assert.equal(readJson(tree, 'gone.json'), undefined)
  })

  test('of JSON may have comments where that is usual', () => {
    const tree = memoryTree({ a: '{ // x\n "a": [1,], }' })
    assert.deepEqual(readJsonc(tree, 'a')?.data, { a: [1] })
    assert.notEqual(readJson(tree, 'a')?.problem, undefined)
  })

  test('of YAML is text, and knows its lines', () => {
    const yaml = readYaml(memoryTree({ a: 'x: &x\n  v: 3.10\ny:\n  <<: *x\n  list: [1, true]\n' }), 'a')
    assert.deepEqual(yaml?.data, { x: { v: '3.10' }, y: { v: '3.10', list: ['1', 'true'] } })
    assert.equal(yaml?.lineAt(['y', 'list', 1]), 5)
    assert.equal(yaml?.lineAt(['y', 'gone', 'x']), undefined)
  })

  test('is read once for each who reads it', () => {
    let count = 0
    const reader = (text: string): string => `${text}${++count}`
    const tree = memoryTree({ a: 'a', b: 'b' })
    assert.deepEqual(
      [tree.readAs('a', reader), tree.readAs('b', reader), tree.readAs('a', reader)],
      ['a1', 'b2', 'a1'],
    )
    assert.equal(tree.readAs('gone', reader), undefined)
  })

  test('of sections has values of several lines', () => {
    const tree = memoryTree({
      a: '# c\n[one]\nkey = a\n    b\n\n    ; c\n    d\nother: 1\n[two:x]\nkey=\n  z\nlost\n',
    })
    const ini = readIni(tree, 'a')
    assert.deepEqual(iniAt(ini, 'one', 'key'), { text: 'a\nb\nd', line: 3 })
    assert.deepEqual(iniAt(ini, 'one', 'other'), { text: '1', line: 8 })
    assert.deepEqual(iniAt(ini, 'two:x', 'key'), { text: 'z', line: 10 })
    assert.equal(iniAt(ini, 'two:x', 'lost'), undefined)
  })
})

describe('what objects inherit', () => {
  test('is no answer', () => {
    const read = readJson(memoryTree({ a: '{"__proto__":{"x":"y"},"b":{}}' }), 'a')
    assert.equal(at(read?.data, 'b', 'constructor'), undefined)
    assert.equal(textAt(read?.data, 'toString'), undefined)
    assert.deepEqual(tableAt(read?.data, 'hasOwnProperty'), {})
    assert.equal(({} as Record<string, unknown>)['x'], undefined)
  })
})

test('a quote is one short line that a terminal can show', () => {
  assert.equal(short(' a\n  b\u001b[31m\u202e '), 'a b?[31m?')
  assert.equal(short('x'.repeat(1e6)).length, 80)
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
