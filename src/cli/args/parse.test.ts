import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { type Grammar, parseArgs } from './parse.ts'

const GRAMMAR: Grammar = {
  usage: 'agentpod try [options] WORD',
  options: {
    name: { help: 'a name', value: 'NAME' },
    env: { help: 'a variable', value: 'NAME=VALUE', short: 'e', repeat: true },
    json: { help: 'JSON', short: 'j' },
  },
  words: { min: 0, max: 2 },
}
const REST: Grammar = { ...GRAMMAR, words: { min: 1, max: Number.POSITIVE_INFINITY, rest: true } }

const RIGHT: readonly {
  argv: string
  words?: readonly string[]
  values?: Record<string, readonly string[]>
}[] = [
  { argv: '' },
  { argv: 'a b', words: ['a', 'b'] },
  { argv: '--name x', values: { name: ['x'] } },
  { argv: '--name=x', values: { name: ['x'] } },
  { argv: '--name=', values: { name: [''] } },
  { argv: '--name=a=b', values: { name: ['a=b'] } },
  { argv: '--name -x', values: { name: ['-x'] } },
  { argv: '--name one --name two', values: { name: ['two'] } },
  { argv: '-e A=1 --env B=2 -eC=3', values: { env: ['A=1', 'B=2', 'C=3'] } },
  { argv: '--json a', words: ['a'], values: { json: [''] } },
  { argv: 'a --json', words: ['a'], values: { json: [''] } },
  { argv: '-- --json', words: ['--json'] },
  { argv: '- a', words: ['-', 'a'] },
]
for (const { argv, words = [], values = {} } of RIGHT) {
  test(`"${argv}" is understood`, () => {
    const parsed = parseArgs(argv.split(' ').filter(Boolean), GRAMMAR)
    assert.deepEqual(parsed.words, words)
    for (const name of Object.keys(GRAMMAR.options))
      assert.deepEqual(parsed.values(name), values[name] ?? [], name)
  })
}

const WRONG: readonly { argv: string; reason: string; hint?: RegExp }[] = [
  { argv: '--nmae x', reason: 'option.unknown', hint: /--name/ },
  { argv: '--zzzzzzzz', reason: 'option.unknown', hint: /usage|agentpod try/ },
  { argv: '-x', reason: 'option.unknown' },
  { argv: '--name', reason: 'option.value' },
  { argv: '-e', reason: 'option.value' },
  { argv: '--json=yes', reason: 'option.value' },
  { argv: '--constructor', reason: 'option.unknown' },
  { argv: '--toString=1', reason: 'option.unknown' },
  { argv: '--__proto__ x', reason: 'option.unknown' },
  { argv: 'a b c', reason: 'words.extra' },
]
for (const { argv, reason, hint } of WRONG) {
  test(`"${argv}" is refused`, () => {
    assert.throws(
      () => parseArgs(argv.split(' '), GRAMMAR),
      (error) => {
        assert.ok(isAgentPodError(error, 'invalid_argument'), String(error))
        assert.equal(error.reason, reason)
        if (hint) assert.match(error.hint ?? '', hint)
        return true
      },
    )
  })
}

describe('a command to run keeps its own options', () => {
  const LINES: readonly [argv: string, words: readonly string[]][] = [
    ['npm test --json', ['npm', 'test', '--json']],
    ['-- npm --json', ['npm', '--json']],
    ['--json npm -- -x', ['npm', '--', '-x']],
  ]
  for (const [argv, words] of LINES) {
    test(argv, () => assert.deepEqual(parseArgs(argv.split(' '), REST).words, words))
  }

  test('and without one something is missing', () => {
    assert.throws(() => parseArgs(['--json'], REST), { reason: 'words.missing' })
  })
})
