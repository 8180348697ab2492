/**
 * The recording that the documents show: its text is true, and it shows nothing of the machine it was made
 * on.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readCast, textOf, writeCast } from '../../scripts/demo/cast.ts'
import { play, svgOf } from '../../scripts/demo/svg.ts'
import { ROOT } from '../support/world.ts'

const read = (name: string): string => readFileSync(join(ROOT, 'docs', 'demo', name), 'utf8')
const recorded = read('agents.cast')

test('the demo’s text is what its recording shows, and the documents show parts of it', () => {
  const text = textOf(readCast(recorded))
  assert.equal(read('agents.txt'), text)
  const document = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
  const [summary = ''] = /^claude-1 changed · .*$/m.exec(text) ?? []
  assert.ok(document('docs/guides/agents.md').includes(summary), `the guide does not show ${summary}`)
  assert.ok(
    document('README.md').includes('(docs/demo/agents.svg)'),
    'the README does not show the recording',
  )
})

test('the demo’s recording is small, and shows nothing of the machine', () => {
  assert.ok(recorded.length < 200 * 1024)
  assert.equal(writeCast(readCast(recorded)), recorded, 'its head has more in it than is needed')
  for (const word of [ROOT, '/tmp/', '/root']) assert.ok(!recorded.includes(word), word)
})

test('overwritten text and colours are not in the demo’s text', () => {
  const event = (data: string): [number, string, string] => [0, 'o', data]
  const events = [
    event('working\r\x1b[K\x1b[1mdone\x1b[0m ✓\r\n'),
    event('one\x1b[1Gtwo\x1b[K!\n'),
    event('$ '),
  ]
  assert.equal(textOf({ header: { width: 80, height: 24 }, events }), 'done ✓\ntwo!\n')
})

test('the animated picture is what scripts/demo/svg.ts draws from the recording, small and 20 to 40 s long', () => {
  const svg = read('agents.svg')
  assert.equal(svg, svgOf(readCast(recorded)), 'run scripts/with-node scripts/demo/svg.ts')
  assert.ok(Buffer.byteLength(svg) < 300 * 1024)
  const { end } = play(readCast(recorded))
  assert.ok(end >= 20 && end <= 40, `${end} s`)
})

test('the last picture of the animation has the lines of the text', () => {
  const { segments } = play(readCast(recorded))
  const lines: string[] = []
  for (const { row, column, text, until } of segments)
    if (until === undefined) lines[row] = (lines[row] ?? '').padEnd(column) + text
  const shown = Array.from(lines, (line = '') => line.trimEnd()).join('\n')
  assert.equal(`${shown}\n`, read('agents.txt'))
})
