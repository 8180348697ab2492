import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Compared } from '../../workbench/run/compare-runs.ts'
import { exampleRun } from '../testing/screen.ts'
import { comparison, failures } from './comparison.ts'

const NOW = Date.parse('2030-01-01T00:10:00.000Z')
const one = (differs: Partial<Compared>): Compared => ({
  info: exampleRun(),
  tests: { state: 'passed' },
  changes: [],
  gated: 0,
  ...differs,
})

test('what is not known is not made up', () => {
  const usage = { ...exampleRun().usage, costUsd: null, source: 'none' as const }
  const unknown = exampleRun({ usage, outcome: null, state: 'working', endedAt: null })
  assert.deepEqual(comparison([one({ info: unknown, tests: { state: 'unknown' } })], NOW)[1], [
    'runabcdefghijkl',
    'claude-1',
    'working',
    '-',
    '0',
    '+0 −0',
    '10m',
    '-',
    '-',
    '0',
  ])
})

test('SECURITY: tests that failed are told by their last words, which no terminal obeys', () => {
  const tail = 'one\ntwo\nthree\nfour\n\u001b[31mfive\u001b[0m\n\u0007six\n\n'
  assert.deepEqual(failures([one({}), one({ tests: { state: 'failed', exitCode: 1, tail } })]), [
    'claude-1 │ two',
    'claude-1 │ three',
    'claude-1 │ four',
    'claude-1 │ five',
    'claude-1 │ \\u0007six',
  ])
})
