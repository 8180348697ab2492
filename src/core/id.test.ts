import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../testing/seeded-random.ts'
import { isAgentPodError } from './error.ts'
import { isSandboxId, newSandboxId, parseName, parseOwner, parseSandboxId } from './id.ts'

test('new ids are valid ids and names, and differ', () => {
  const random = new SeededRandom(3)
  const ids = Array.from({ length: 1000 }, () => newSandboxId(random))
  assert.equal(new Set(ids).size, 1000)
  for (const id of ids) {
    assert.ok(isSandboxId(id))
    assert.equal(parseName(id), id)
  }
})

const HOSTILE = [
  '',
  '..',
  '../x',
  'a/b',
  'a\nb',
  'abcd\n',
  '-rf',
  '--help',
  'a b',
  'ÄÖÜÄ',
  'a\0bc',
  'ABCD',
  '.',
  '$x',
]

const GRAMMARS: readonly {
  name: string
  parse: (text: string) => string
  right: readonly string[]
  wrong: readonly string[]
}[] = [
  {
    name: 'a sandbox id',
    parse: parseSandboxId,
    right: ['abcd', '0123456789', 'a'.repeat(20)],
    wrong: [...HOSTILE, 'abc', 'a'.repeat(21), 'ab-cd', 'ab.cd'],
  },
  {
    name: 'a name',
    parse: parseName,
    right: ['a', '0', 'my-box', 'a.b_c', 'a'.repeat(64)],
    wrong: [...HOSTILE, 'a-', 'a.', '_a', 'a'.repeat(65)],
  },
  {
    name: 'an owner label',
    parse: parseOwner,
    right: ['ap-abcdefghijkl', '----'],
    wrong: [...HOSTILE.filter((text) => text !== '--help'), 'abc', 'a'.repeat(41), 'a.bcd'],
  },
]

for (const { name, parse, right, wrong } of GRAMMARS) {
  for (const text of right) test(`${text} is ${name}`, () => assert.equal(parse(text), text))
  for (const text of wrong) {
    test(`${JSON.stringify(text)} is not ${name}`, () => {
      assert.throws(
        () => parse(text),
        (error) => isAgentPodError(error, 'invalid_argument'),
      )
    })
  }
}
