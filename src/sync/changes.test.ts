/**
 * What a command changed, by a real git: what is set aside is not looked at, and nothing else is left out.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { baselineScript, changesScript, parseChanges, type Script } from './changes.ts'

let scratch: string
let workspace: string
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'agentpod-changes-'))
  workspace = join(scratch, 'project')
  mkdirSync(workspace)
})
afterEach(() => rmSync(scratch, { recursive: true }))

function write(path: string, text = 'x'): void {
  mkdirSync(dirname(join(workspace, path)), { recursive: true })
  writeFileSync(join(workspace, path), text)
}

function run({ command, args }: Script): Buffer {
  return execFileSync(command, args, { stdio: ['ignore', 'pipe', 'ignore'] })
}

/** What is seen to have changed between two looks. */
function changed(aside: readonly string[], before: readonly string[], after: readonly string[]): string[] {
  for (const path of before) write(path, 'before')
  run(baselineScript(scratch, workspace, aside))
  for (const path of after) write(path, 'after')
  return parseChanges(run(changesScript(scratch, workspace, aside))).changes.map(({ path }) => path)
}

test('caches that programs write do not count as changes, unless the project contains them', () => {
  const seen = changed(
    [],
    ['main.py', 'kept/__pycache__/a.pyc'],
    ['main.py', 'api/__pycache__/b.pyc', '.pytest_cache/v', 'kept/__pycache__/a.pyc', 'pycache'],
  )
  assert.deepEqual(seen.sort(), ['kept/__pycache__/a.pyc', 'main.py', 'pycache'])
})

describe('excluded directories', () => {
  test('excluded directories are not compared, and everything else is', () => {
    const seen = changed(
      ['node_modules', 'api/.venv'],
      ['a', 'node_modules/x/index.js', 'api/.venv/bin/python', 'web/node_modules/y'],
      [
        'a',
        'b',
        'node_modules/x/index.js',
        'node_modules/new',
        'api/.venv/new',
        'web/node_modules/y',
        'api/main.py',
      ],
    )
    assert.deepEqual(seen.sort(), ['a', 'api/main.py', 'b', 'web/node_modules/y'])
  })

  test('excluded directories need not exist', () =>
    assert.deepEqual(changed(['gone', 'also/gone'], ['a'], ['a', 'b']).sort(), ['a', 'b']))

  for (const name of [
    'with space',
    'a*',
    '[x]',
    'q?',
    '!not',
    '#not',
    '-dash',
    ':(glob)**',
    'back\\slash',
    "it's",
    '$(id)',
    'ü',
  ])
    test(`an excluded directory called ${name} excludes nothing else`, () => {
      const seen = changed(
        [name],
        ['a', `${name}/x`, 'abc/x', 'x/x', 'q1/x'],
        ['a', `${name}/x`, `${name}/y`, 'abc/x', 'x/x', 'q1/x'],
      )
      assert.deepEqual(seen.sort(), ['a', 'abc/x', 'q1/x', 'x/x'])
    })

  for (const name of ['x\n*', '\n', 'x\n/a', 'x\r'])
    test(`SECURITY: excluding ${JSON.stringify(name)} does not exclude the rest`, () => {
      assert.deepEqual(changed([name], ['a'], ['a', 'b']).sort(), ['a', 'b'])
    })
})
