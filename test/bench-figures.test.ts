// What a run of the benchmarks writes into the document, from figures that are made up.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { chartOf } from './bench/chart.ts'
import { duration } from './bench/duration.ts'
import { type FigureName, type Figures, frontPage, OURS, panelsOf, SAME_WORK } from './bench/figures.ts'
import { inTurn, type Summary, summarize } from './bench/measure.ts'
import { replaceSections } from './bench/sections.ts'

/** The first page breaks its lines; what it says does not depend on where. */
const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ')
const row = (name: string, ms: number): Summary => summarize(name, [ms])
const FIGURES: Figures = new Map<FigureName, Summary[]>([
  ['create', [row(OURS, 12.34), row(SAME_WORK, 17.9), row('docker', 311), row('a <b> & c', 1)]],
  ['exec', [row(OURS, 2.31), row('crun exec', 6)]],
  ['hundred', [row(OURS, 1550)]],
  ['memory', [row(OURS, 2.04)]],
  ['fixedMemory', [row(OURS, 85.2)]],
])

describe('figures of the benchmarks', () => {
  test('a summary has the median, the slow end and the fastest', () => {
    const { count, p50, p95, min } = summarize('one', [5, 1, 9, 3, 7])
    assert.deepEqual({ count, p50, p95, min }, { count: 5, p50: 5, p95: 9, min: 1 })
    assert.ok(Number.isNaN(summarize('none', []).p50))
  })

  test('a run of some parts replaces their sections, where they were, and says when', () => {
    const before =
      'Measured on a machine.\n\n### Lives\n\n1\n\n### Box\n\n2\n\n### Box: more\n\n3\n\n### Last\n\n4'
    const later =
      'Measured on another.\n\n### Box\n\n### Box: new\n\nnew\n\n### Box: other\n\nnewer\n\n### Added\n\n5'
    assert.equal(
      replaceSections(before, later, '2030-01-02'),
      [
        'Measured on a machine.',
        '### Lives\n\n1',
        '### Box\n\nMeasured 2030-01-02, in a run of its own.',
        '### Box: new\n\nnew',
        '### Box: other\n\nnewer',
        '### Last\n\n4',
        '### Added\n\nMeasured 2030-01-02, in a run of its own.\n\n5',
      ].join('\n\n'),
    )
  })

  test('cases take turns, and warm-ups do not count', async () => {
    const calls: string[] = []
    const once = (name: string) => ({ name, once: async () => calls.push(name) })
    const samples = await inTurn([once('a'), once('b')], 2, 1)
    assert.equal(calls.join(''), 'ababab')
    assert.deepEqual(
      samples.map(({ name, values }) => ({ name, values })),
      [
        { name: 'a', values: [3, 5] },
        { name: 'b', values: [4, 6] },
      ],
    )
  })

  test('times are short to read', () => {
    assert.deepEqual([1.26, 99.9, 311.4, 1550].map(duration), ['1.3 ms', '99.9 ms', '311 ms', '1.6 s'])
  })

  test('the first page names our figures with those of the peers, and leaves out what was not measured', () => {
    const lines = frontPage(FIGURES)
    assert.match(lines[0] ?? '', /^- \*\*A new sandbox has run its first command after 12\.3 ms\*\* \(/)
    assert.match(oneLine(lines[0] ?? ''), /same work\): 17\.9 ms; docker: 311 ms\)\.$/)
    assert.match(lines.join('\n'), /running sandbox takes 2\.3 ms \(crun exec: 6\.0 ms\)/)
    assert.match(lines.join('\n'), /2\.0 MiB .* 85 MiB/)
    assert.doesNotMatch(lines.join('\n'), /snapshot|a second|NaN|undefined/)
    assert.ok(Math.max(...lines.flatMap((line) => line.split('\n')).map((line) => line.length)) <= 120)
    assert.deepEqual(
      frontPage(new Map()).filter((line) => line.startsWith('-')),
      [],
    )
  })

  test('the chart has a bar, a name and a value for each figure, and says all of it in words', () => {
    const svg = chartOf(panelsOf(FIGURES), { day: '2026-01-02' })
    assert.equal(svg.match(/<rect/g)?.length, 7)
    assert.equal(svg.match(/<rect class="o"/g)?.length, 3)
    assert.match(svg, /<title id="title">AgentPod/)
    assert.match(svg, /<desc id="desc">Measured 2026-01-02\. Create to first output: agentpod 12\.3 ms;/)
    assert.match(svg, />a &lt;b&gt; &amp; c</)
    assert.match(svg, /prefers-color-scheme:dark/)
    assert.doesNotMatch(svg, /NaN|undefined|Infinity/)
  })

  test('the longest bar of a panel fits, with its value, into the picture', () => {
    const svg = chartOf(panelsOf(FIGURES), { day: '2026-01-02' })
    const width = Number(/viewBox="0 0 (\d+)/.exec(svg)?.[1])
    const values = [...svg.matchAll(/class="v[^"]*" x="([\d.]+)"/g)].map(([, x]) => Number(x))
    assert.ok(Math.max(...values) + 60 <= width)
  })
})
