import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { attacksPage, BLOCKERS, casesOf, outcomeOf, readResults, resultOf } from './attack-table.ts'
import { PROVIDERS } from './chosen-provider.ts'
import { ROOT } from './world.ts'

const FILE = join(ROOT, 'docs', 'reference', 'attacks.md')

test('docs/reference/attacks.md is up to date (AGENTPOD_UPDATE_DOCS=1 writes it)', () => {
  const page = attacksPage(readResults())
  if (process.env['AGENTPOD_UPDATE_DOCS'] === '1') writeFileSync(FILE, page)
  assert.ok(readFileSync(FILE, 'utf8') === page, 'run this test with AGENTPOD_UPDATE_DOCS=1')
})

test('PROV-13 every attack that blocks a release ran on every provider, or has a reason why not', () => {
  const results = readResults()
  for (const provider of PROVIDERS)
    for (const id of BLOCKERS) {
      const { passed, differs } = outcomeOf(results, provider, id)
      assert.ok(passed > 0 || differs.length > 0, `${id} on ${provider}`)
      if (provider === 'crun') assert.ok(passed > 0, `${id} on crun`)
    }
})

test('the results of a test run are read from its output', () => {
  const more = (type: string): string => `  ---\n  duration_ms: 1\n  type: '${type}'\n  ...`
  const tap = `TAP version 13
# Subtest: FS-01 LK-02 one
ok 1 - FS-01 LK-02 one
${more('test')}
    # Subtest: FS-01 two
    ok 1 - FS-01 two \\# of two
${more('test').replaceAll(/^/gm, '    ')}
    ok 2 - PR-03 three # SKIP it differs
${more('test').replaceAll(/^/gm, '    ')}
ok 2 - FS-16 a suite
${more('suite')}
ok 3 - PR-14 a suite # SKIP all of it
${more('suite')}
not ok 4 - PR-05 four
${more('test')}
1..4
`
  const cases = casesOf(tap)
  assert.deepEqual(
    cases.map(({ name, isPassed }) => [name, isPassed]),
    [
      ['FS-01 LK-02 one', true],
      ['FS-01 two # of two', true],
      ['PR-03 three', true],
      ['PR-14 a suite', true],
      ['PR-05 four', false],
    ],
  )
  assert.deepEqual(resultOf(cases), {
    passed: { 'FS-01': 2, 'LK-02': 1 },
    differs: { 'PR-03 three': 'it differs', 'PR-14 a suite': 'all of it' },
  })
})
