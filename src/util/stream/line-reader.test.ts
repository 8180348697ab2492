import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LineReader } from './line-reader.ts'

const TEXT = 'one\ntwo\r\n\nwörter\nlast'

test('lines are the same wherever the bytes are cut, and each knows where the next begins', () => {
  const bytes = Buffer.from(TEXT)
  const whole = [...new LineReader(100).push(bytes)]
  assert.deepEqual(
    whole.map(({ line }) => line),
    ['one', 'two', '', 'wörter'],
  )
  for (let cut = 0; cut <= bytes.length; cut++) {
    const reader = new LineReader(100)
    assert.deepEqual([...reader.push(bytes.subarray(0, cut)), ...reader.push(bytes.subarray(cut))], whole)
  }
  // Whoever begins again at an end misses nothing and sees nothing twice.
  for (const [at, { end }] of whole.entries())
    assert.deepEqual([...new LineReader(100, end).push(bytes.subarray(end))], whole.slice(at + 1))
})

test('a line that is too long is skipped, and the next one is read', () => {
  for (const step of [1, 3, 1000]) {
    const bytes = Buffer.from(`${'x'.repeat(50)}\nshort\n`)
    const reader = new LineReader(10)
    const lines = []
    for (let at = 0; at < bytes.length; at += step) lines.push(...reader.push(bytes.subarray(at, at + step)))
    assert.deepEqual(lines, [{ line: 'short', end: bytes.length }])
  }
})
