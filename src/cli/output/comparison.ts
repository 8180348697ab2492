/** Compared runs as a table. */
import { oneLine, truncate } from '../../util/one-line.ts'
import type { Compared, Tests } from '../../workbench/run/compare-runs.ts'
import { labelOf } from '../../workbench/run/run-label.ts'
import { dollars, elapsed, words } from './run-lines.ts'
import { countsOf } from './run-result-lines.ts'

export function testsText(tests: Tests): string {
  return tests.state === 'failed'
    ? `failed (${tests.exitCode})`
    : tests.state === 'unknown'
      ? '-'
      : tests.state
}

/** Rows of the table, with its heading. */
export function comparison(compared: readonly Compared[], now: number): string[][] {
  return [
    ['RUN', 'AGENT', 'OUTCOME', 'TESTS', 'FILES', 'LINES', 'TIME', 'TOKENS', 'COST', 'DENIALS'],
    ...compared.map(({ info, tests, changes }) => {
      const { added, removed } = countsOf(changes)
      const { usage } = info
      const total = usage.input + usage.cached + usage.output
      return [
        info.id,
        labelOf(info),
        words(info.outcome ?? info.state),
        testsText(tests),
        String(changes.length),
        `+${added} −${removed}`,
        elapsed(info, now),
        usage.source === 'none' ? '-' : total.toLocaleString('en'),
        usage.costUsd === null || usage.source === 'none' ? '-' : dollars(usage.costUsd),
        String(info.denials),
      ]
    }),
  ]
}

const SHOWN = 5

/** The last lines of tests that failed. */
export function failures(compared: readonly Compared[]): string[] {
  return compared.flatMap(({ info, tests }) => {
    if (tests.state !== 'failed') return []
    const lines = tests.tail.split('\n').filter((line) => line.trim() !== '')
    return lines.slice(-SHOWN).map((line) => `${labelOf(info)} │ ${truncate(oneLine(line), 200)}`)
  })
}
