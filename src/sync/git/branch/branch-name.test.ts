import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { ResultStage } from '../testing/result-stage.ts'
import {
  branchName,
  branchNameProblem,
  clashingBranch,
  DEFAULT_BRANCH,
  freeBranchName,
  prefixOf,
  slugOf,
} from './branch-name.ts'

const WORDS = { slug: 'fix-it', agent: 'claude', n: 1 }

describe('slugs', () => {
  for (const [prompt, slug] of [
    ['Fix the failing test', 'fix-the-failing-test'],
    ['', 'run'],
    ['日本語だけ', 'run'],
    ['Füge Tests hinzu!', 'fuge-tests-hinzu'],
    ['../../etc/passwd', 'etc-passwd'],
    ['--upload-pack=/bin/sh', 'upload-pack-bin-sh'],
    ['a\n\u001b[31mb\0c', 'a-31mb-c'],
    ['one two three four five six seven eight nine ten', 'one-two-three-four-five-six-seven-eight'],
    ['x'.repeat(500), 'x'.repeat(40)],
    ['.lock', 'lock'],
  ])
    test(`the slug of ${JSON.stringify(prompt?.slice(0, 50))}`, () =>
      assert.equal(slugOf(prompt ?? ''), slug))
})

describe('branch names', () => {
  test('a branch name is made from a template', () => {
    assert.equal(branchName(DEFAULT_BRANCH, WORDS), 'agentpod/fix-it-claude-1')
    assert.equal(branchName('bots/{agent}/{n}', { ...WORDS, n: 12 }), 'bots/claude/12')
    assert.equal(prefixOf('team/bots/{agent}/{n}'), 'team/bots/')
    assert.equal(prefixOf('team/bots-{agent}/{n}'), 'team/')
  })

  for (const template of [
    'agentpod/{slug}',
    '{slug}-{n}',
    'x-{n}',
    'agentpod/{what}-{n}',
    'agentpod/{}-{n}',
    'agentpod/{n',
    'agentpod/..{n}',
    'agentpod//{n}',
    '/agentpod/{n}',
    'agentpod/{n}/',
    'agentpod/{n}.lock',
    'agentpod/.{n}',
    'agentpod/ {n}',
    'agentpod/{n}~1',
    'agentpod/{n}:x',
    'agentpod/{n}^',
    '-x/{n}',
    'agentpod/{n}\n',
    `agentpod/${'x'.repeat(300)}{n}`,
  ])
    test(`a branch template is refused: ${JSON.stringify(template.slice(0, 40))}`, () =>
      assert.throws(
        () => branchName(template, WORDS),
        (error) => isAgentPodError(error, 'invalid_argument') && error.reason === 'branch.template',
      ))

  test('a branch name is always valid for git', () => {
    const pieces = [
      '.',
      '..',
      '/',
      '@',
      '{',
      '~',
      ' ',
      '-',
      '.lock',
      'é',
      '\\',
      '*',
      'HEAD',
      '\u007f',
      '\u200b',
    ]
    const names = pieces.flatMap((piece) => [
      piece,
      `a${piece}`,
      `${piece}b`,
      `a${piece}b`,
      `a/${piece}`,
      `${piece}/b`,
    ])
    for (const name of names.filter((one) => branchNameProblem(one) === undefined))
      assert.equal(spawnSync('git', ['check-ref-format', '--branch', name]).status, 0, JSON.stringify(name))
  })

  for (const [name, taken, clash] of [
    ['agentpod/a-1', ['main', 'agentpod/a-2'], undefined],
    ['agentpod/a-1', ['agentpod/a-1'], 'agentpod/a-1'],
    ['agentpod/a-1', ['AgentPod/A-1'], 'AgentPod/A-1'],
    ['agentpod/a-1', ['agentpod'], 'agentpod'],
    ['agentpod/a-1', ['agentpod/a-1/more'], 'agentpod/a-1/more'],
    ['agentpod/a-1', ['agentpod/a-10', 'agentpod/a'], undefined],
  ] as [string, string[], string | undefined][])
    test(`clashes of the branch ${name} with ${taken.join(', ')}`, () =>
      assert.equal(clashingBranch(name, taken), clash))

  test('a branch gets the next free name', async () => {
    using stage = new ResultStage()
    const free = async (): Promise<string> =>
      await freeBranchName(await stage.repository(), DEFAULT_BRANCH, WORDS, 'number')
    assert.equal(await free(), 'agentpod/fix-it-claude-1')
    stage.git('branch', 'agentpod/fix-it-claude-1')
    stage.git('branch', 'agentpod/FIX-it-claude-2')
    stage.git('pack-refs', '--all')
    assert.equal(await free(), 'agentpod/fix-it-claude-3')
    stage.git('branch', '-D', 'agentpod/fix-it-claude-1', 'agentpod/FIX-it-claude-2')
    stage.git('branch', 'agentpod')
    await assert.rejects(free(), (error) => isAgentPodError(error) && error.reason === 'branch.in_the_way')
  })
})
