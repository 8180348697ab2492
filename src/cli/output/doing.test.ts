import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEventBodyView } from '../../api/schema/run.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { exampleRun, runEvents, screen } from '../testing/screen.ts'
import { RunLog } from './run-log.ts'

const RUN = { id: 'a', agent: 'claude', number: 1 }
const tool = (
  status: 'started' | 'running' | 'done',
  more: { output?: string; tool?: string; title?: string } = {},
) => ({ type: 'tool', tool: 't1', kind: 'execute', title: 'npm test', status, ...more }) as const
const USAGE: RunEventBodyView = { type: 'usage', usage: exampleRun().usage }
const WORKING: RunEventBodyView = { type: 'state', state: 'working' }

function watched(
  o: { readonly runs?: number; readonly isTerminal?: boolean; readonly columns?: number } = {},
) {
  const at = screen({ isTerminal: o.isTerminal ?? true, columns: o.columns ?? 100 })
  const clock = new FakeClock()
  const runs = Array.from({ length: o.runs ?? 1 }, (_, i) => ({
    ...RUN,
    id: i === 0 ? 'a' : `a${i}`,
    number: i + 1,
  }))
  const log = new RunLog(at.terminal, runs, { clock })
  return {
    clock,
    log,
    out: at.out,
    said: at.said,
    take: (...bodies: readonly RunEventBodyView[]) => {
      for (const event of runEvents(...bodies)) log.take('a', event)
    },
    /** What stands on the line that is replaced. */
    shown: () => at.said().join('\n').split('\r\u001b[K').at(-1),
  }
}

test('the command that runs, a clock and what it prints stay on the screen, beside the tokens', async () => {
  const { take, shown, clock } = watched()
  take(WORKING)
  assert.equal(shown(), 'working · 0:00')
  take(tool('started'), USAGE)
  assert.equal(shown(), '→ npm test · 0:00 · 1.5k tokens in, 80 tokens out, $0.25')
  await clock.advance(75_000)
  assert.equal(shown(), '→ npm test · 1:15 · 1.5k tokens in, 80 tokens out, $0.25')
  take(tool('running', { output: 'first\n\u001b[32mok\u001b[0m 3 tests\n\n' }))
  assert.equal(shown(), '→ npm test · 1:15 · ok 3 tests · 1.5k tokens in, 80 tokens out, $0.25')
  await clock.advance(3_600_000)
  assert.match(shown() ?? '', /^→ npm test · 1:01:15 · ok 3 tests/)
  take(tool('done'))
  assert.match(shown() ?? '', /^working · 1:01:15 · 1\.5k/)
})

test('of two commands the newest is shown, and then the other', () => {
  const { take, shown } = watched()
  take(WORKING, tool('started'), tool('started', { tool: 't2', title: 'npm run lint' }))
  assert.equal(shown(), '→ npm run lint (and 1 more) · 0:00')
  take(tool('done', { tool: 't2', title: 'npm run lint' }))
  assert.equal(shown(), '→ npm test · 0:00')
})

test('a long command leaves room for its clock, and the line is never wider than the screen', () => {
  const { take, shown } = watched({ columns: 60 })
  take(
    WORKING,
    tool('started', { title: 'x'.repeat(300) }),
    tool('running', { title: 'x'.repeat(300), output: 'y'.repeat(300) }),
  )
  assert.match(shown() ?? '', /^→ x+… · 0:00 · y+…$/)
  assert.equal([...(shown() ?? '')].length, 59)
})

test('nothing is drawn over a question, in a pipe, of several runs, or after the end', async () => {
  const asked = watched()
  asked.take(WORKING)
  asked.log.hold()
  const before = asked.said().join('\n')
  asked.take(tool('started'))
  await asked.clock.advance(5000)
  assert.equal(asked.said().join('\n'), before)
  asked.log.release()
  assert.equal(asked.shown(), '→ npm test · 0:05')
  asked.log.end('a')
  assert.equal(asked.clock.waiting, 0)
  assert.equal(asked.shown(), '')
  for (const o of [{ isTerminal: false }, { runs: 2 }]) {
    const { take, said, clock } = watched(o)
    take(WORKING, tool('started'))
    await clock.advance(5000)
    assert.deepEqual(said(), [])
  }
})
