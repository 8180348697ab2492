import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Language } from '../../detect/finding.ts'
import { byVersion, isLatest, isRange, mayMatch, overlaps, satisfies, toRange, toVersion } from './version.ts'

/** A wish, versions that meet it, and versions that do not. */
type Row = readonly [Language | 'tool', wish: string, met: readonly string[], unmet: readonly string[]]

const ROWS: readonly Row[] = [
  ['node', '20', ['20.0.0', '20.19.1', 'v20.1.0'], ['19.9.9', '21.0.0', '2.0.0']],
  ['node', 'v20', ['20.3.0'], ['18.0.0']],
  ['node', '20.11', ['20.11.0', '20.11.9'], ['20.12.0']],
  ['node', '20.11.1', ['20.11.1'], ['20.11.0', '20.11.2']],
  ['node', '=20.11.1', ['20.11.1'], ['20.11.2']],
  ['node', '>=18', ['18.0.0', '24.1.0'], ['17.9.0']],
  ['node', '>= 18', ['18.0.0'], ['16.0.0']],
  ['node', '^20.9.0 || >=21.1.0', ['20.9.0', '22.0.0'], ['20.8.0', '21.0.0']],
  ['node', '>=18 <21', ['18.1.0', '20.9.0'], ['21.0.0']],
  ['node', '18 || 20', ['18.2.0', '20.2.0'], ['19.0.0']],
  ['node', '18 - 20', ['18.0.0', '20.99.0'], ['21.0.0']],
  ['node', '20.x', ['20.7.0'], ['21.0.0']],
  ['node', '~20.9', ['20.9.4'], ['20.10.0']],
  ['node', 'lts/*', ['18.1.0', '22.1.0', '24.0.0'], ['19.1.0', '23.0.0']],
  ['node', 'lts', ['22.1.0'], ['21.0.0']],
  ['node', 'LTS/*', ['22.1.0'], ['21.0.0']],
  ['node', 'lts/iron', ['20.1.0'], ['22.0.0']],
  ['node', 'lts/Hydrogen', ['18.1.0'], ['20.0.0']],
  ['node', 'lts-jod', ['22.1.0'], ['20.0.0']],
  ['node', 'latest', ['5.0.0', '25.0.0'], []],
  ['node', 'node', ['25.0.0'], []],
  ['node', '*', ['0.10.0'], []],
  ['node', 'x', ['1.0.0'], []],
  ['node', '  22  ', ['22.1.0'], ['20.0.0']],
  ['python', '3.12', ['3.12.0', '3.12.7', '3.12'], ['3.11.9', '3.13.0']],
  ['python', '3.11.4', ['3.11.4'], ['3.11.5']],
  ['python', '3', ['3.9.0', '3.13.1'], ['2.7.18']],
  ['python', '3.x', ['3.13.1'], ['2.7.18']],
  ['python', '3.12-dev', ['3.12.1'], ['3.11.0']],
  ['python', '3.13.0rc1', ['3.13.0'], ['3.12.0']],
  ['python', 'python-3.11.4', ['3.11.4'], ['3.11.3']],
  ['python', '>=3.8', ['3.8.0', '3.13.0'], ['3.7.9']],
  ['python', '>= 3.8', ['3.8.0'], ['3.7.9']],
  ['python', '>=3.9a0', ['3.9.0'], ['3.8.0']],
  ['python', '>=3.8,<4', ['3.8.0', '3.99.0'], ['4.0.0', '3.7.0']],
  ['python', '>=3.8, <3.13', ['3.12.9'], ['3.13.0']],
  ['python', '>= 3.8 , < 3.13', ['3.12.9'], ['3.13.0']],
  ['python', '<3.12 >=3.9', ['3.11.0'], ['3.12.0', '3.8.0']],
  ['python', '==3.10.*', ['3.10.0', '3.10.14'], ['3.11.0']],
  ['python', '==3.10.2', ['3.10.2'], ['3.10.3']],
  ['python', '===3.10.2', ['3.10.2'], ['3.10.3']],
  ['python', '~=3.8', ['3.8.0', '3.12.0'], ['4.0.0', '3.7.0']],
  ['python', '~=3.8.1', ['3.8.1', '3.8.9'], ['3.9.0', '3.8.0']],
  ['python', '>=3.8,!=3.9.*', ['3.8.0', '3.10.0'], ['3.7.0']],
  ['python', '>3.8', ['3.9.0'], ['3.8.0']],
  ['python', '^3.8', ['3.8.0', '3.13.0'], ['4.0.0', '3.7.0']],
  ['python', '^3.8.1', ['3.8.1'], ['3.8.0']],
  ['python', '~3.11', ['3.11.9'], ['3.12.0']],
  ['python', '~3', ['3.11.9'], ['4.0.0', '2.7.0']],
  ['python', '^2.7 || ^3.8', ['2.7.18', '3.9.0'], ['3.7.0']],
  ['python', '^2.7|^3.8', ['2.7.18', '3.9.0'], ['3.7.0']],
  ['go', '1.22', ['1.22.0', '1.22.9'], ['1.21.9', '1.23.0']],
  ['go', '>=1.22', ['1.22.0', '1.24.3'], ['1.21.9']],
  ['go', '1.22.3', ['1.22.3'], ['1.22.2', '1.23.0']],
  ['go', 'go1.22.3', ['1.22.3'], ['1.22.2']],
  ['go', '1.24rc1', ['1.24.0'], ['1.23.0']],
  ['go', '==1.24.3', ['1.24.3'], ['1.24.4', '1.25.0']],
  ['go', '^1.20', ['1.24.0'], ['1.19.0']],
  ['go', 'stable', ['1.24.0'], []],
  ['rust', 'stable', ['1.80.0'], []],
  ['rust', 'stable-x86_64-unknown-linux-gnu', ['1.80.0'], []],
  ['rust', '1.75', ['1.75.0', '1.75.1'], ['1.76.0']],
  ['rust', '1.75.0', ['1.75.0'], ['1.75.1']],
  ['rust', '1.75.0-x86_64-unknown-linux-gnu', ['1.75.0'], ['1.76.0']],
  ['rust', '>=1.70', ['1.70.0', '1.85.0'], ['1.69.0']],
  ['java', '1.8', ['8', '8.0.402'], ['11', '1.8.0', '18']],
  ['java', '1.8.0_292', ['8'], ['11']],
  ['java', '8', ['8.0.402'], ['11']],
  ['java', '17', ['17', '17.0.9'], ['21']],
  ['java', '17.0.2', ['17', '17.0.9'], ['18']],
  ['java', '21.0.2+13', ['21'], ['17']],
  ['java', '17-ea', ['17'], ['21']],
  ['java', 'temurin-21', ['21.0.1'], ['17']],
  ['java', 'temurin-21.0.2+13', ['21'], ['17']],
  ['java', 'openjdk64-17.0.1', ['17'], ['64']],
  ['java', 'corretto-17.0.8.8.1', ['17'], ['8']],
  ['java', '>=17', ['17', '25'], ['11']],
  ['kotlin', '21', ['21'], ['17']],
  ['ruby', '3.2', ['3.2.0', '3.2.9'], ['3.3.0']],
  ['ruby', 'ruby-3.2.1', ['3.2.1'], ['3.2.2']],
  ['ruby', '3.2.1-p31', ['3.2.1'], ['3.2.2']],
  ['ruby', '~> 3.2', ['3.2.0', '3.9.0'], ['4.0.0', '3.1.0']],
  ['ruby', '~> 3', ['3.2.0'], ['4.0.0']],
  ['ruby', '~> 3.2.1', ['3.2.1', '3.2.9'], ['3.3.0', '3.2.0']],
  ['ruby', '>= 2.7, < 4', ['2.7.0', '3.3.0'], ['4.0.0']],
  ['ruby', '= 3.2.1', ['3.2.1'], ['3.2.2']],
  ['ruby', '>= 3.0, != 3.1.0', ['3.2.0'], ['2.7.0']],
  ['php', '^8.1', ['8.1.0', '8.4.0'], ['9.0.0', '8.0.0']],
  ['php', '^7.4|^8.0', ['7.4.1', '8.3.0'], ['7.3.0', '9.0.0']],
  ['php', '^7.4 || ^8.0', ['7.4.1', '8.3.0'], ['7.3.0']],
  ['php', '>=7.4 <8.3', ['7.4.0', '8.2.0'], ['8.3.0']],
  ['php', '>=7.4,<8.3', ['8.2.0'], ['8.3.0']],
  ['php', '>= 8.1', ['8.1.0'], ['8.0.0']],
  ['php', '~8.1', ['8.1.0', '8.4.0'], ['9.0.0', '8.0.0']],
  ['php', '~8.1.3', ['8.1.3', '8.1.9'], ['8.2.0']],
  ['php', '8.1.*', ['8.1.3'], ['8.2.0']],
  ['php', '8.1 - 8.3', ['8.1.0', '8.3.9'], ['8.4.0']],
  ['php', '^8.2@stable', ['8.2.1'], ['8.1.0']],
  ['elixir', '~> 1.14', ['1.14.0', '1.18.0'], ['2.0.0', '1.13.0']],
  ['elixir', '1.15.7-otp-26', ['1.15.7'], ['1.15.6']],
  ['elixir', '>= 1.12.0 and < 1.17.0', ['1.16.0'], ['1.17.0']],
  ['elixir', '~> 1.10 or ~> 2.0', ['1.18.0', '2.3.0'], ['3.0.0']],
  ['deno', '2', ['2.1.0'], ['1.46.0']],
  ['bun', '1.2.x', ['1.2.9'], ['1.3.0']],
  ['dotnet', '8.0.x', ['8.0.404'], ['9.0.0']],
  ['tool', '9', ['9.1.0'], ['10.0.0']],
  ['tool', '9.1.0', ['9.1.0'], ['9.1.1']],
]

describe('a wish and what meets it', () => {
  for (const [language, wish, met, unmet] of ROWS)
    test(`${language} ${wish}`, () => {
      for (const version of met) assert.ok(satisfies(language, version, wish), `${version} meets it`)
      for (const version of unmet) assert.ok(!satisfies(language, version, wish), `${version} does not`)
    })
})

describe('what is no version', () => {
  const NONSENSE: readonly (readonly [Language | 'tool', string])[] = [
    ['node', 'banana'],
    ['node', 'lts/nobody'],
    ['node', 'lts/constructor'],
    ['node', 'lts/-1'],
    ['node', 'iojs'],
    ['node', '>=18 || banana'],
    ['python', 'pypy3.9-7.3.11'],
    ['python', 'miniconda3-latest'],
    ['python', '>='],
    ['python', ','],
    ['python', '3.12; rm -rf ~'],
    ['go', 'tip'],
    ['rust', 'nightly-2024-05-01'],
    ['rust', 'beta'],
    ['java', 'banana'],
    ['java', 'openjdk@17'],
    ['ruby', 'jruby-9.4.5.0'],
    ['ruby', '~> banana'],
    ['php', '^banana'],
    ['elixir', '~> 1.15-rc'],
    ['tool', '$(id)'],
    ['tool', '1.0.0\nPin: evil'],
  ]
  for (const [language, wish] of NONSENSE)
    test(`${language} ${JSON.stringify(wish)} is met by nothing`, () => {
      assert.equal(toRange(language, wish), undefined)
      assert.ok(!satisfies(language, '3.12.0', wish))
      assert.ok(!mayMatch(language, '3.12', wish))
      assert.ok(!overlaps(language, '*', wish))
    })

  const LONG: readonly string[] = [
    'x'.repeat(100_000),
    '>='.repeat(50_000),
    `>=3.8${' '.repeat(100_000)}<3.9`,
    '1.'.repeat(50_000),
    '9'.repeat(100_000),
    `${'||'.repeat(50_000)}3`,
    `~> ${'9'.repeat(150)}`,
    `^${'0'.repeat(180)}1`,
    `${','.repeat(190)}3`,
  ]
  for (const language of ['node', 'python', 'go', 'rust', 'java', 'ruby', 'php', 'elixir', 'tool'] as const)
    test(`long text does not hold ${language} up, and is never half a range`, () => {
      for (const wish of LONG) {
        if (wish.length > 200) assert.equal(toRange(language, wish), undefined, wish.slice(0, 20))
        else toRange(language, wish)
        toVersion(wish)
      }
    })
})

describe('lines of versions', () => {
  const LINES: readonly (readonly [Language, line: string, wish: string, isMet: boolean])[] = [
    ['python', '3.11', '3.11.4', true],
    ['python', '3.11', '>=3.11.2', true],
    ['python', '3.11', '~=3.11.1', true],
    ['python', '3.11', '3.12', false],
    ['python', '3.13', '>=3.10,<3.13', false],
    ['java', '17', '17.0.9', true],
    ['java', '21', '17', false],
    ['go', '1.24', '1.24.9', true],
    ['go', '1.24', '==1.24', true],
    ['go', '1.24', '==1.25', false],
    ['rust', '1.85', '1.85.1', true],
    ['c', '14', '*', true],
  ]
  for (const [language, line, wish, isMet] of LINES)
    test(`${language} ${line} ${isMet ? 'may be' : 'is not'} ${wish}`, () =>
      assert.equal(mayMatch(language, line, wish), isMet))
})

test('versions are sorted with the newest first, whatever they look like', () => {
  const versions = ['v9.1.0', '10', '3.9', 'go1.22', '10.0.1', '3.10']
  assert.deepEqual(versions.toSorted(byVersion), ['10.0.1', '10', 'v9.1.0', '3.10', '3.9', 'go1.22'])
  assert.equal(byVersion('nothing', '1'), 0)
})

test('a bare version is none of the ranges, and a word is one', () => {
  for (const text of ['20', 'v20', '3.11.4', 'go1.22', '==1.24.3', 'ruby-3.2'])
    assert.ok(!isRange(text), text)
  for (const text of ['>=20', '20.x', 'lts/*', '^3.8', 'latest', '1.2.3.4']) assert.ok(isRange(text), text)
  for (const text of ['latest', 'current', 'node']) assert.ok(isLatest(text), text)
  for (const text of ['*', 'lts', 'stable', '22']) assert.ok(!isLatest(text), text)
})
