import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TurnEnd } from '../agents/drivers/driver.ts'
import type { Outcome } from '../core/run.ts'
import { type RunEnding, runOutcome } from './outcome.ts'

const DONE: TurnEnd = { how: 'done', message: undefined }
const QUIET: RunEnding = {
  wish: undefined,
  end: DONE,
  exitCode: undefined,
  complaint: '',
  denials: 0,
  isChanged: false,
}

const CASES: readonly (readonly [string, Partial<RunEnding>, Outcome, RegExp?])[] = [
  ['it says it is done and files changed', { isChanged: true }, 'changed'],
  ['it says it is done and nothing changed', {}, 'unchanged'],
  [
    'an exit code of 0 without a word is no success',
    { end: undefined, exitCode: 0 },
    'failed',
    /exit code 0/,
  ],
  [
    'it died, and changed files before: it failed',
    { end: undefined, exitCode: 137, isChanged: true },
    'failed',
    /137/,
  ],
  [
    'its last complaint is told',
    { end: undefined, exitCode: 1, complaint: 'a\nno such model\n' },
    'failed',
    /no such model/,
  ],
  ['it ended without any trace', { end: undefined }, 'failed', /without giving a reason/],
  [
    'its own failure counts, whatever changed',
    { end: { how: 'failed', message: 'status 401' }, isChanged: true },
    'failed',
    /401/,
  ],
  ['refused something and nothing came of it', { denials: 1 }, 'denied', /requests were refused/],
  ['refused something, and still changed files', { denials: 3, isChanged: true }, 'changed'],
  ['the model refused', { end: { how: 'refused', message: undefined } }, 'denied', /refused/],
  [
    'the model refused after a change',
    { end: { how: 'refused', message: undefined }, isChanged: true },
    'changed',
  ],
  ['the model ran into its own limit', { end: { how: 'limit', message: undefined } }, 'failed', /limit/],
  ['it says it is done after the model refused the key', { refusal: 401 }, 'failed', /key.*401/],
  ['the model refused once, after everything was done', { refusal: 529, isChanged: true }, 'changed'],
  ['somebody inside canceled it', { end: { how: 'canceled', message: undefined } }, 'canceled'],
  ['what is not known to have changed has not', { isChanged: undefined }, 'unchanged'],
  [
    'a wish from outside goes before everything',
    {
      wish: { outcome: 'timed_out', reason: 'its time is over' },
      isChanged: true,
      end: { how: 'failed', message: 'x' },
    },
    'timed_out',
    /time is over/,
  ],
  ['over budget', { wish: { outcome: 'over_budget', reason: 'used $2' } }, 'over_budget', /\$2/],
  ['canceled', { wish: { outcome: 'canceled', reason: 'it was canceled' }, end: undefined }, 'canceled'],
]

for (const [name, ending, outcome, reason] of CASES) {
  test(`RUN-4 RUN-7 the outcome is ${outcome}: ${name}`, () => {
    const said = runOutcome({ ...QUIET, ...ending })
    assert.equal(said.outcome, outcome)
    if (reason) assert.match(said.reason ?? '', reason)
  })
}
