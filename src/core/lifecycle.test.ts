import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from './error.ts'
import { isEnded, type LifecycleEvent, next, STATES, type State } from './lifecycle.ts'

const EVENTS: readonly LifecycleEvent[] = [
  'created',
  'pause',
  'paused',
  'resume',
  'resumed',
  'stop',
  'stopped',
  'start',
  'started',
  'destroy',
  'destroyed',
  'fail',
]

// One row for each state, one column for each event in the order above; a dash is a conflict.
const EXPECTED: Readonly<Record<State, string>> = {
  creating: 'running - - - - - - - - destroying - failed',
  running: '- pausing - - - stopping - - - destroying - failed',
  pausing: '- - paused - running stopping - - - destroying - failed',
  paused: '- - - resuming - stopping - - - destroying - failed',
  resuming: '- - paused - running stopping - - - destroying - failed',
  stopping: '- - - - - - stopped - - destroying - failed',
  stopped: '- - - - - - - starting - destroying - failed',
  starting: '- - - - - - stopped - running destroying - failed',
  destroying: '- - - - - - - - - destroying destroyed -',
  destroyed: '- - - - - - - - - - - -',
  failed: '- - - - - - - - - destroying - -',
}

for (const state of STATES) {
  test(`every lifecycle event from ${state}`, () => {
    const row = EXPECTED[state].split(' ')
    assert.equal(row.length, EVENTS.length)
    for (const [i, event] of EVENTS.entries()) {
      if (row[i] !== '-') {
        assert.equal(next(state, event), row[i], event)
        continue
      }
      assert.throws(
        () => next(state, event),
        (error) => isAgentPodError(error, 'conflict') && error.details['state'] === state,
        `${state} took ${event}`,
      )
    }
  })
}

test('a lifecycle conflict names the allowed operations', () => {
  const allowed = (state: State, event: LifecycleEvent): unknown => {
    try {
      return next(state, event)
    } catch (error) {
      return isAgentPodError(error) && error.details['allowed']
    }
  }
  assert.deepEqual(allowed('running', 'resume'), ['pause', 'stop', 'destroy'])
  assert.deepEqual(allowed('destroyed', 'destroy'), [])
})

test('only a destroyed sandbox has ended', () => {
  assert.deepEqual(STATES.filter(isEnded), ['destroyed'])
})

test('a sandbox can be destroyed from every state but the last', () => {
  for (const state of STATES.filter((one) => one !== 'destroyed'))
    assert.equal(next(state, 'destroy'), 'destroying')
})
