/** The recording that the documents show: what it says of itself is so, and nothing of the machine it was made on is in it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readCast, textOf, writeCast } from '../../scripts/demo/cast.ts'
import { ROOT } from '../support/world.ts'

const read = (name: string): string => readFileSync(join(ROOT, 'docs', 'demo', name), 'utf8')
const recorded = read('agents.cast')

test('the text beside the recording is what it shows, and the documents show parts of it', () => {
  const text = textOf(readCast(recorded))
  assert.equal(read('agents.txt'), text)
  for (const document of ['README.md', 'docs/guides/agents.md']) {
    const shown = readFileSync(join(ROOT, document), 'utf8')
    const [summary = ''] = /^claude-1 changed · .*$/m.exec(text) ?? []
    assert.ok(shown.includes(summary), `${document} shows another recording than ${summary}`)
  }
})

test('it is small, and tells nothing of the machine', () => {
  assert.ok(recorded.length < 200 * 1024)
  assert.equal(writeCast(readCast(recorded)), recorded, 'its head has more in it than is needed')
  for (const word of [ROOT, '/tmp/', '/root']) assert.ok(!recorded.includes(word), word)
})

test('what is written over is gone from the text, and so are colours', () => {
  const event = (data: string): [number, string, string] => [0, 'o', data]
  const events = [
    event('working\r\x1b[K\x1b[1mdone\x1b[0m ✓\r\n'),
    event('one\x1b[1Gtwo\x1b[K!\n'),
    event('$ '),
  ]
  assert.equal(textOf({ header: { width: 80, height: 24 }, events }), 'done ✓\ntwo!\n')
})
