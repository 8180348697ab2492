// The harness decides what counts as a failure, so it is tested with samples of each kind.

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { runChild } from './child.ts'
import { createGoCollector } from './go-tests.ts'
import { createCollector } from './node-tests.ts'
import type { TestResult } from './reporter.ts'
import type { Case } from './result.ts'

const result = (over: Partial<TestResult>): TestResult => ({
  kind: 'result',
  file: '/top/a.test.ts',
  name: 'a',
  nesting: 0,
  isSuite: false,
  passed: true,
  durationMs: 1,
  skip: null,
  failureType: '',
  error: '',
  ...over,
})

function collect(...results: readonly Partial<TestResult>[]): string[] {
  const collector = createCollector('/top')
  for (const one of results) collector.add(result(one))
  return outcomes(collector.finish())
}

function outcomes(cases: readonly Case[]): string[] {
  return cases.map(({ outcome, name }) => `${outcome} ${name}`)
}

test('only leaf tests count', () => {
  const found = collect(
    { name: 'leaf', nesting: 1 },
    { name: 'parent' },
    { name: 'suite', isSuite: true },
    { name: 'b' },
  )
  assert.deepEqual(found, ['passed a.test.ts: parent › leaf', 'passed a.test.ts: b'])
})

test('a parent fails for itself and not for its children', () => {
  const child = { name: 'child', nesting: 1, passed: false, failureType: 'testCodeFailure' }
  assert.deepEqual(collect(child, { name: 'parent', passed: false, failureType: 'subtestsFailed' }), [
    'failed a.test.ts: parent › child',
  ])
  assert.deepEqual(
    collect({ ...child, passed: true }, { name: 'parent', passed: false, failureType: 'hookFailed' }),
    ['passed a.test.ts: parent › child', 'failed a.test.ts: parent'],
  )
})

test('a case is named with all of its suites, and with no other', () => {
  const found = collect(
    { name: 'a', nesting: 2 },
    { name: 'inner', nesting: 1, isSuite: true },
    { name: 'b', nesting: 1 },
    { name: 'outer', isSuite: true },
    { name: 'c', nesting: 1 },
    { name: 'next', isSuite: true },
  )
  assert.deepEqual(found, [
    'passed a.test.ts: outer › inner › a',
    'passed a.test.ts: outer › b',
    'passed a.test.ts: next › c',
  ])
})

test('a skipped test keeps its reason', () => {
  const collector = createCollector('/top')
  collector.add(result({ skip: 'no KVM' }))
  assert.equal(collector.finish()[0]?.detail, 'no KVM')
})

test('a file in which no test ran is a failure', () => {
  assert.deepEqual(collect({ name: 'a.test.ts' }), ['failed a.test.ts'])
})

test('Go subtests count once and a package that does not compile is a failure', () => {
  const collector = createGoCollector()
  collector.add({ Action: 'pass', Package: 'p', Test: 'TestA/one' })
  collector.add({ Action: 'fail', Package: 'p', Test: 'TestA/two' })
  collector.add({ Action: 'fail', Package: 'p', Test: 'TestA' })
  collector.add({ Action: 'output', Package: 'p', Test: 'TestB', Output: '    b_test.go:7: needs root\n' })
  collector.add({ Action: 'skip', Package: 'p', Test: 'TestB' })
  collector.add({ Action: 'fail', Package: 'p' })
  collector.add({ Action: 'fail', Package: 'broken' })
  collector.add({ Action: 'skip', Package: 'without-tests' })
  const cases = collector.finish('syntax error')
  assert.deepEqual(outcomes(cases), [
    'passed p TestA/one',
    'failed p TestA/two',
    'skipped p TestB',
    'failed broken',
  ])
  assert.deepEqual(
    cases.slice(2).map(({ detail }) => detail),
    ['needs root', 'syntax error'],
  )
})

test('a child that passes its time limit ends with all it started', async () => {
  const { timedOut, output, durationMs } = await runChild('sh', ['-c', 'sleep 30 & echo $!; wait'], {
    cwd: '/',
    limitMs: 100,
  })
  assert.ok(timedOut)
  assert.ok(durationMs < 5_000)
  // Nobody may have collected it yet; what has ended has no command line.
  const path = `/proc/${output.trim()}/cmdline`
  assert.equal(existsSync(path) ? readFileSync(path, 'utf8') : '', '')
})
