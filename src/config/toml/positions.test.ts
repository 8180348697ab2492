import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parse } from 'smol-toml'
import { type Path, positionAt, positionsOf } from './positions.ts'

const TEXT = `# a comment with [brackets] and "quotes"
title = "TOML"
dotted.key.deep = 1
"quoted key".'single' = [1, 2, # one
  3 ]
"\\u0061bc" = true
date = 1979-05-27 07:32:00
mixed = [1979-05-27 07:32:00, "]", '}', { x = 1, y.z = [ { w = 2 } ] }]
many = """
a = "not a key" \\"""
b = 1""""
literal = '''
c = 2
'''

[table]   # a comment
inline = { a = 1, "b" = { c = "}" } , d = [{}] }
[ table . sub ]
  key	=	"value"
[[list]]
n = 1
[[list]]
n = 2
[list.inner]
m = 3
[[list.more]]
k = 4
`

const at = (path: Path, kind: 'key' | 'value' = 'value', text = TEXT): string => {
  const offset = positionsOf(text)[kind](path)
  if (offset === undefined) return 'nowhere'
  const { line, column } = positionAt(text, offset)
  return `${line}:${column}`
}

describe('places in a document', () => {
  const ROWS: readonly (readonly [path: Path, key: string, value: string])[] = [
    [['title'], '2:1', '2:9'],
    [['dotted'], '3:1', '3:1'],
    [['dotted', 'key'], '3:8', '3:8'],
    [['dotted', 'key', 'deep'], '3:12', '3:19'],
    [['quoted key'], '4:1', '4:1'],
    [['quoted key', 'single'], '4:14', '4:25'],
    [['quoted key', 'single', 1], '4:29', '4:29'],
    [['quoted key', 'single', 2], '5:3', '5:3'],
    [['abc'], '6:1', '6:14'],
    [['date'], '7:1', '7:8'],
    [['mixed', 0], '8:10', '8:10'],
    [['mixed', 1], '8:31', '8:31'],
    [['mixed', 2], '8:36', '8:36'],
    [['mixed', 3], '8:41', '8:41'],
    [['mixed', 3, 'y', 'z', 0, 'w'], '8:60', '8:64'],
    [['many'], '9:1', '9:8'],
    [['literal'], '12:1', '12:11'],
    [['table'], '16:2', '16:2'],
    [['table', 'inline', 'b', 'c'], '17:27', '17:31'],
    [['table', 'inline', 'd', 0], '17:44', '17:44'],
    [['table', 'sub'], '18:11', '18:11'],
    [['table', 'sub', 'key'], '19:3', '19:9'],
    [['list', 0, 'n'], '21:1', '21:5'],
    [['list', 1], '22:3', '22:3'],
    [['list', 1, 'n'], '23:1', '23:5'],
    [['list', 1, 'inner', 'm'], '25:1', '25:5'],
    [['list', 1, 'more', 0, 'k'], '27:1', '27:5'],
    [['nothing'], 'nowhere', 'nowhere'],
    [['list', 2], 'nowhere', 'nowhere'],
    [['title', 'deeper'], 'nowhere', 'nowhere'],
    [['__proto__'], 'nowhere', 'nowhere'],
    [['constructor'], 'nowhere', 'nowhere'],
  ]
  for (const [path, key, value] of ROWS) {
    test(`${path.join('.')} is at ${key}, its value at ${value}`, () => {
      assert.equal(at(path, 'key'), key)
      assert.equal(at(path), value)
    })
  }

  test('the document is one that the reader takes, and every value of it has a place', () => {
    const positions = positionsOf(TEXT)
    const visit = (value: unknown, path: Path): void => {
      assert.notEqual(positions.value(path), undefined, path.join('.'))
      if (Array.isArray(value)) for (const [index, inner] of value.entries()) visit(inner, [...path, index])
      else if (typeof value === 'object' && value !== null && !(value instanceof Date))
        for (const [key, inner] of Object.entries(value)) visit(inner, [...path, key])
    }
    visit(parse(TEXT), [])
  })

  test('positions are the same with other line ends, and count characters', () => {
    const text = '# é😀\r\n"😀é" = 1 # x\r\n[a]\r\nb = "😀", c\r\n'
    assert.equal(at(['😀é'], 'value', text), '2:8')
    assert.equal(at(['a', 'b'], 'value', text), '4:5')
  })

  test('a value is as it is written', () => {
    const positions = positionsOf('a = 3.10 # x\nb = [0x1F, "q"]')
    assert.equal(positions.raw(['a']), '3.10')
    assert.equal(positions.raw(['b', 0]), '0x1F')
    assert.equal(positions.raw(['b']), '[0x1F, "q"]')
    assert.equal(positions.raw([]), undefined)
  })
})

describe('a key that is there twice', () => {
  for (const [text, offset, path, first] of [
    ['a = 1\na = 2', 6, ['a'], 0],
    ['[a]\nb = 1\nb = 2', 10, ['a', 'b'], 4],
    ['[a]\n[a]', 5, ['a'], 1],
    ['a = 1\n[a]', 7, ['a'], 0],
    ['a = 1\na.b = 1', 6, ['a'], 0],
    ['[x]\na = { b = 1, b = 2 }', 17, ['b'], 10],
  ] as const) {
    test(JSON.stringify(text), () => {
      assert.throws(() => parse(text))
      assert.deepEqual(positionsOf(text).before(offset), { path, first })
    })
  }
})

describe('text that is no TOML ends the walk, and nothing more', () => {
  const BROKEN = [
    '[',
    '[[',
    ']',
    '=',
    'a',
    'a =',
    'a = [',
    'a = {',
    'a = "',
    "a = '''",
    'a = """\\',
    '"',
    '"\\',
    'a.',
    'a = [1 2',
    '{a}',
    'a = {b',
    'a = [[[',
    '\0',
    '\\',
    'a = }',
    '[a',
    '"\\q" = 1',
    ',',
    'a = [,',
    'a={,',
  ]
  for (const text of BROKEN) test(JSON.stringify(text), () => void positionsOf(`${text}\nz = 1`))
  for (const text of [
    '['.repeat(100_000),
    `a = ${'['.repeat(100_000)}`,
    `a = ${'{a='.repeat(100_000)}`,
    'a.'.repeat(100_000),
    ' '.repeat(1_000_000),
    `a = "${'\\"'.repeat(400_000)}`,
  ])
    test(`${text.slice(0, 12)}… (${text.length})`, () => void positionsOf(text))
})
