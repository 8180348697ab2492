import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { parseDuration, parseMib, parseNumber, parsePairs, parseVariables } from './values.ts'

const isRefused = (error: unknown): boolean => isAgentPodError(error, 'invalid_argument')

function table(
  name: string,
  parse: (text: string, option: string) => number,
  right: readonly (readonly [string, number])[],
  wrong: readonly string[],
): void {
  describe(name, () => {
    for (const [text, value] of right)
      test(`${text} is ${value}`, () => assert.equal(parse(text, 'x'), value))
    for (const text of wrong) {
      test(`${JSON.stringify(text)} is refused`, () => assert.throws(() => parse(text, 'x'), isRefused))
    }
  })
}

table(
  'a size in MiB',
  parseMib,
  [
    ['512m', 512],
    ['2g', 2048],
    ['1.5G', 1536],
    ['1GiB', 1024],
    ['1t', 1048576],
  ],
  ['', 'g', '-1', '1k', '1 g', '0x10', '1e3', '1..5', 'NaN', '1constructor', '1tostring'],
)
table(
  'a time in milliseconds',
  parseDuration,
  [
    ['90s', 90_000],
    ['15m', 900_000],
    ['1.5h', 5_400_000],
    ['2d', 172_800_000],
    ['250ms', 250],
  ],
  ['', 'h', '-1s', '1w', '1 h', '1h30m', '1e3', 'Infinity'],
)
table(
  'a number',
  parseNumber,
  [
    ['0', 0],
    ['0.5', 0.5],
    ['-3', -3],
  ],
  ['', ' ', 'two', 'NaN', 'Infinity', '1,5'],
)

test('pairs are cut at their first equals sign', () => {
  assert.deepEqual(parsePairs(['a=b', 'c=', 'd=e=f'], 'label'), { a: 'b', c: '', d: 'e=f' })
  for (const wrong of ['a', '=b', '']) assert.throws(() => parsePairs([wrong], 'label'), isRefused)
})

describe('variables', () => {
  test('come from files first, then from options, and a bare name passes the caller’s', (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'agentpod-env-'))
    t.after(() => rmSync(directory, { recursive: true }))
    const file = join(directory, 'env')
    writeFileSync(file, '# comment\n\nA=1\nexport B="two words"\r\nC=\'x\'\nD=a=b # kept\nE=\n')
    assert.deepEqual(parseVariables([file], ['A=9', 'HOME', 'F='], { HOME: '/me' }), {
      A: '9',
      B: 'two words',
      C: 'x',
      D: 'a=b # kept',
      E: '',
      F: '',
      HOME: '/me',
    })
    writeFileSync(file, 'A=1\nnot a line\n')
    assert.throws(() => parseVariables([file], [], {}), /env:2/)
  })

  for (const pair of ['1A=x', 'A B=x', '=x', 'A-B', '']) {
    test(`${JSON.stringify(pair)} is no variable`, () =>
      assert.throws(() => parseVariables([], [pair], {}), isRefused))
  }

  test('that the caller does not have cannot be passed', () => {
    assert.throws(() => parseVariables([], ['NONE'], {}), isRefused)
  })

  test('a file that is not there is named', () => {
    assert.throws(() => parseVariables(['/nonexistent/env'], [], {}), /nonexistent/)
  })
})
