import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { ResultStage } from '../testing/result-stage.ts'
import { cleanBranches, listBranches } from './clean-branches.ts'

let stage: ResultStage
beforeEach(() => {
  stage = new ResultStage()
  for (const name of ['merged', 'squashed', 'open', 'here', 'there']) {
    stage.git('checkout', '-q', '-b', `agentpod/${name}`, 'main')
    stage.write(stage.root, { [`${name}.txt`]: name })
    stage.git('add', '-A')
    stage.git('commit', '-q', '-m', `${name}\u001b`)
  }
  stage.git('checkout', '-q', 'main')
  stage.git('merge', '-q', '--no-ff', '-m', 'm', 'agentpod/merged')
  stage.git('merge', '-q', '--squash', 'agentpod/squashed')
  stage.git('commit', '-q', '-m', 's')
  stage.git('branch', 'agentpod-not/x')
  stage.git('worktree', 'add', '-q', join(stage.directory, 'there'), 'agentpod/there')
  stage.git('checkout', '-q', 'agentpod/here')
  stage.git('merge', '-q', '--ff-only', 'agentpod/here')
  stage.git('reset', '-q', '--hard', 'main')
})
afterEach(() => stage[Symbol.dispose]())

const branches = (): string[] => stage.git('branch', '--format=%(refname:short)').split('\n').sort()

test('branches below a prefix are listed with their state', async () => {
  const found = await listBranches(await stage.repository(), 'agentpod/', stage.scratch())
  assert.deepEqual(
    found
      .map(({ name, isMerged, isCheckedOut }) => [name.slice('agentpod/'.length), isMerged, isCheckedOut])
      .sort(),
    [
      ['here', true, true],
      ['merged', true, false],
      ['open', false, false],
      ['squashed', true, false],
      ['there', false, true],
    ],
  )
  assert.equal(found.find(({ name }) => name === 'agentpod/open')?.subject, 'open?')
})

test('cleaning removes merged branches, but none that is checked out anywhere or that the user keeps', async () => {
  const tip = stage.git('rev-parse', 'agentpod/merged')
  const { removed, kept } = await cleanBranches(await stage.repository(), {
    prefix: 'agentpod',
    isMergedOnly: true,
    keep: ['agentpod/squashed'],
    scratch: stage.scratch(),
  })
  assert.deepEqual(removed, [{ name: 'agentpod/merged', commit: tip }])
  assert.deepEqual(kept.map(({ name, why }) => `${name}: ${why}`).sort(), [
    'agentpod/here: it is checked out',
    'agentpod/open: it is not merged',
    'agentpod/squashed: you asked to keep it',
    'agentpod/there: it is checked out',
  ])
})

test('cleaning everything removes all branches that are not checked out', async () => {
  const before = stage.fingerprint().replaceAll(/^.*(?:refs|logs)\/.*\n/gm, '')
  await cleanBranches(await stage.repository(), {
    prefix: 'agentpod',
    isMergedOnly: false,
    scratch: stage.scratch(),
  })
  assert.deepEqual(branches(), ['agentpod-not/x', 'agentpod/here', 'agentpod/there', 'main'])
  assert.equal(stage.fingerprint().replaceAll(/^.*(?:refs|logs)\/.*\n/gm, ''), before)
})
