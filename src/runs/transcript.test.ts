import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEventBody } from '../core/run.ts'
import { keep } from './transcript.ts'

const says = (message: string, text: string): RunEventBody => ({
  type: 'message',
  from: 'agent',
  message,
  text,
})
const thinks = (message: string, text: string): RunEventBody => ({ type: 'thought', message, text })
const note = (text: string): RunEventBody => ({ type: 'note', text })

test('parts of one message that arrive together are joined, and nothing else is', () => {
  const { events } = keep(
    [
      says('1', 'he'),
      says('1', 'llo'),
      says('2', '!'),
      thinks('2', 'hm'),
      thinks('2', 'm'),
      note('n'),
      thinks('2', '?'),
    ],
    0,
  )
  assert.deepEqual(events, [
    says('1', 'hello'),
    says('2', '!'),
    thinks('2', 'hmm'),
    note('n'),
    thinks('2', '?'),
  ])
})

test('a full transcript is reported once; questions and states are still stored', () => {
  const megabyte = note('x'.repeat(1024 * 1024))
  let [bytes, all] = [0, [] as RunEventBody[]]
  for (let i = 0; i < 70; i++) {
    const kept = keep([megabyte], bytes)
    bytes = kept.bytes
    all = [...all, ...kept.events]
  }
  assert.ok(all.length < 70 && all.length > 60, `${all.length}`)
  assert.equal(
    all.filter((event) => event.type === 'note' && event.text.startsWith('The transcript')).length,
    1,
  )
  const state: RunEventBody = { type: 'state', state: 'ended', outcome: 'canceled' }
  assert.deepEqual(keep([megabyte, state], bytes).events, [state])
})
