import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OUTCOMES, type Outcome } from '../../core/run.ts'
import { exitCodeOf, exitCodeOfAll } from './exit-code.ts'

test('RUN-7 every outcome has an exit code of its own', () => {
  const codes = OUTCOMES.map(exitCodeOf)
  assert.deepEqual(codes, [0, 20, 21, 22, 23, 24, 130])
  assert.equal(new Set(codes).size, OUTCOMES.length)
})

const TABLE: readonly (readonly [outcomes: readonly (Outcome | null)[], code: number])[] = [
  [['failed', 'changed'], 0],
  [['unchanged', 'failed'], 20],
  [['failed', 'unchanged'], 22],
  [[null, 'denied'], 21],
  [[null], 22],
  [[], 22],
]

for (const [outcomes, code] of TABLE)
  test(`RUN-7 the exit code of ${outcomes.join(' and ') || 'nothing'} is ${code}`, () =>
    assert.equal(exitCodeOfAll(outcomes.map((outcome) => ({ outcome }))), code))
