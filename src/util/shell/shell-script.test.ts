import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { commandSequence, orExit, ownLines } from './shell-script.ts'

function run(script: string, shell = '/bin/sh'): { code: number | null; out: string } {
  const { status, stdout } = spawnSync(shell, ['-c', script], { encoding: 'utf8' })
  return { code: status, out: stdout }
}

describe('a script of commands', () => {
  const cases: readonly [string, readonly string[], number, string][] = [
    ['a list that fails at its first member', ['sh -c "exit 7" && echo no', 'echo on'], 7, ''],
    ['a list that fails at its last member', ['true && sh -c "exit 7"', 'echo on'], 7, ''],
    ['a plain command that fails', ['sh -c "exit 7"', 'echo on'], 7, ''],
    ['the first of several lines', ['false\necho no', 'echo on'], 1, ''],
    ['a subshell', ['(exit 3)', 'echo on'], 3, ''],
    ['a function', ['f() { return 4; }\nf', 'echo on'], 4, ''],
    ['a command that ends in a comment', ['false # never mind', 'echo on'], 1, ''],
    ['what is allowed to fail', ['false || true', 'if false; then echo no; fi', 'echo on'], 0, 'on\n'],
    ['what one command leaves to the next', ['cd /', 'A=1', 'pwd; echo $A'], 0, '/\n1\n'],
  ]
  for (const shell of ['/bin/sh', '/bin/bash'])
    for (const [what, commands, code, out] of cases)
      test(`a script handles ${what}, in ${shell}`, () =>
        assert.deepEqual(run(commandSequence(commands), shell), { code, out }))

  test('orExit ends a script without `set -e`', () =>
    assert.deepEqual(run(`${orExit('false')}\necho on`), { code: 1, out: '' }))

  test('ownLines returns the lines of the original commands', () =>
    assert.deepEqual(ownLines(commandSequence(['a && b', 'c\nd'])), ['a && b', 'c', 'd']))
})
