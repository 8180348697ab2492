import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { chooseRun } from './find-run.ts'

/** Newest first. */
const RUNS = [
  { id: 'runbbb333', agent: 'codex', number: 2 },
  { id: 'runbbb222', agent: 'codex', number: 1 },
  { id: 'runaaa111', agent: 'claude', number: 2 },
  { id: 'runaaa000', agent: 'claude', number: 1 },
  { id: 'runold999', agent: 'claude', number: 2 },
]
const BRANCHES = [{ name: 'agentpod/fix-claude-1', run: 'runaaa000' }]

describe('a run is meant by', () => {
  const TABLE: readonly (readonly [word: string | undefined, id: string | undefined])[] = [
    [undefined, 'runbbb333'],
    ['runaaa000', 'runaaa000'],
    ['runold', 'runold999'],
    ['codex', 'runbbb333'],
    ['codex-1', 'runbbb222'],
    ['claude', 'runaaa111'],
    ['claude-2', 'runaaa111'],
    ['agentpod/fix-claude-1', 'runaaa000'],
    ['claude-3', undefined],
    ['gemini', undefined],
    ['run', undefined],
    ['', undefined],
  ]
  for (const [word, id] of TABLE)
    test(`${JSON.stringify(word)}: ${id}`, () => assert.equal(chooseRun(word, RUNS, BRANCHES), id))

  test('a beginning that several have is not enough', () =>
    assert.throws(
      () => chooseRun('runbbb', RUNS, BRANCHES),
      (error) => isAgentPodError(error, 'invalid_argument') && /runbbb333, runbbb222/.test(error.hint ?? ''),
    ))

  test('nothing where there are no runs', () => assert.equal(chooseRun(undefined, [], []), undefined))
})
