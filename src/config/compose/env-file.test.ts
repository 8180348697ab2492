import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readEnvFile } from './env-file.ts'

test('CMP-3 values of a file of variables may name others, as with Docker', () => {
  const text = [
    'A=one',
    'B=${A}-two',
    'C="$B $OUTER"',
    "D='${A}'",
    'E=${NONE:-${}x',
    'F=${NONE:-other}$NONE',
    'G=\\$A',
    'H=a$',
    'export I=${A} # said',
  ].join('\n')
  assert.deepEqual(readEnvFile(text, { OUTER: 'outer' }), {
    A: 'one',
    B: 'one-two',
    C: 'one-two outer',
    D: '${A}',
    E: '${NONE:-${}x',
    F: 'other',
    G: '$A',
    H: 'a$',
    I: 'one',
  })
})

test('CMP-3 values that name each other do not grow without a limit', () => {
  const lines = ['A0=0123456789', ...Array.from({ length: 60 }, (_, n) => `A${n + 1}=$A${n}$A${n}`)]
  const values = Object.values(readEnvFile(lines.join('\n')))
  assert.ok(values.reduce((sum, value) => sum + value.length, 0) < 3_000_000)
  assert.equal(values[3]?.length, 80)
  const many = ['A='.padEnd(100_000, 'a'), `B=${'$A'.repeat(100_000)}`].join('\n')
  assert.ok((readEnvFile(many)['B']?.length ?? 0) < 3_000_000)
})
