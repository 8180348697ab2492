/** A branch merged by us: what git would come to, without what git would run. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { type Files, ResultStage } from '../testing/result-stage.ts'
import { type Merged, type MergeOptions, mergeBranch } from './merge-branch.ts'

const NAME = 'agentpod/x'

let stage: ResultStage
beforeEach(() => {
  stage = new ResultStage({ a: '1\n2\n3\n4\n5\n', b: 'b\n', 'dir/c': 'c\n', other: 'o\n' })
  commit(NAME, { a: '1\n2\n3\n4\nfive\n', new: 'n\n', 'dir/c': null, 'dir/script': { run: 'x\n' } })
  stage.git('checkout', '-q', 'main')
})
afterEach(() => stage[Symbol.dispose]())

function commit(branch: string, files: Files): void {
  stage.git('checkout', '-q', ...(branch === 'main' ? [] : ['-b']), branch)
  stage.write(stage.root, files)
  stage.git('add', '-A')
  stage.git('commit', '-q', '-m', `on ${branch}`)
}

async function merge(options: Partial<MergeOptions> = {}): Promise<Merged> {
  return mergeBranch(await stage.repository(), {
    tip: stage.git('rev-parse', NAME),
    name: NAME,
    message: 'Merge it',
    now: 1_800_000_000_000,
    scratch: stage.scratch(),
    ...options,
  })
}

const text = (path: string): string => readFileSync(join(stage.root, path), 'utf8')

describe('merging a branch', () => {
  test('a merge makes a commit with two parents and updates the index and the files', async () => {
    commit('main', { a: 'ONE\n2\n3\n4\n5\n' })
    const head = stage.git('rev-parse', 'HEAD')
    const { commit: made, written, removed } = await merge()
    assert.equal(stage.git('rev-parse', 'main'), made)
    assert.equal(
      stage.git('log', '-1', '--format=%P %s %an'),
      `${head} ${stage.git('rev-parse', NAME)} Merge it Some One`,
    )
    assert.deepEqual([written, removed], [['a', 'dir/script', 'new'], ['dir/c']])
    assert.equal(text('a'), 'ONE\n2\n3\n4\nfive\n')
    assert.equal(stage.git('status', '--porcelain'), '')
    assert.match(stage.git('reflog', '-1'), /merge agentpod\/x/)
    stage.git('fsck', '--strict', '--full')
  })

  test('a merge makes a commit where git would fast-forward', async () => {
    await merge()
    assert.equal(stage.git('log', '-1', '--format=%P').split(' ').length, 2)
    assert.equal(stage.git('status', '--porcelain'), '')
  })

  test('a squash merge makes a commit without the history of the branch', async () => {
    const head = stage.git('rev-parse', 'HEAD')
    await merge({ isSquash: true })
    assert.equal(stage.git('log', '-1', '--format=%P'), head)
    assert.equal(stage.git('diff', '--name-only', NAME, 'main'), '')
  })

  test('RUN-18 a branch is merged beside the user’s changes in other files, staged or not', async () => {
    stage.write(stage.root, { b: 'mine\n', other: 'staged\n', untracked: 'u' })
    stage.git('add', 'other')
    await merge()
    assert.equal(stage.git('status', '--porcelain'), ' M b\nM  other\n?? untracked')
    assert.equal(stage.git('show', 'HEAD:other'), 'o')
  })

  test('a branch is merged into a detached HEAD', async () => {
    stage.git('checkout', '-q', '--detach')
    const { commit: made } = await merge()
    assert.equal(stage.git('rev-parse', 'HEAD'), made)
    assert.notEqual(stage.git('rev-parse', 'main'), made)
  })

  test('merging a branch twice does nothing the second time', async () => {
    await merge()
    const before = stage.fingerprint()
    assert.equal((await merge()).commit, undefined)
    assert.equal(stage.fingerprint(), before)
  })

  test('a merge continues after a process was killed before the commit', async () => {
    const head = stage.git('rev-parse', 'HEAD')
    await merge()
    stage.git('update-ref', 'HEAD', head)
    await merge()
    assert.equal(stage.git('status', '--porcelain'), '')
  })

  test('a branch is merged over uncommitted files that the run began with', async () => {
    stage.write(stage.root, { b: 'dirty\n', fresh: 'f\n' })
    stage.git('add', '-A')
    const start = stage.git('write-tree')
    stage.write(stage.root, { b: 'dirty\nagent\n', fresh: 'f\nagent\n' })
    stage.git('add', '-A')
    const [tree, base] = [stage.git('write-tree'), stage.git('rev-parse', 'main')]
    const first = stage.git('commit-tree', '-p', base, '-m', 'start', start)
    const tip = stage.git('commit-tree', '-p', first, '-m', 'agent', tree)
    stage.git('read-tree', 'HEAD')
    stage.write(stage.root, { b: 'dirty\n', fresh: 'f\n' })
    await assert.rejects(merge({ tip }), (error) => isAgentPodError(error, 'conflict'))
    await merge({ tip, start })
    assert.deepEqual([text('b'), text('fresh')], ['dirty\nagent\n', 'f\nagent\n'])
    assert.equal(stage.git('status', '--porcelain'), '')
  })
})

describe('merge conflicts', () => {
  const CASES: readonly (readonly [name: string, mine: () => void, reason: string, words: RegExp])[] = [
    [
      'both changed the same lines',
      () => commit('main', { a: '1\n2\n3\n4\n55\n' }),
      'merge.conflict',
      /\n {2}a$/,
    ],
    [
      'a file was changed and not committed',
      () => stage.write(stage.root, { a: 'mine\n' }),
      'apply.conflict',
      /"a": you changed it too/,
    ],
    [
      'a file is staged as something else',
      () => {
        stage.write(stage.root, { a: 'mine\n' })
        stage.git('add', 'a')
        stage.write(stage.root, { a: '1\n2\n3\n4\n5\n' })
      },
      'apply.conflict',
      /"a": you staged another version of it/,
    ],
    [
      'an untracked file is in the way',
      () => stage.write(stage.root, { new: 'mine' }),
      'apply.conflict',
      /"new": you have a file with this name that the run did not have/,
    ],
    [
      'a merge is under way',
      () => writeFileSync(join(stage.root, '.git/MERGE_HEAD'), `${stage.commit}\n`),
      'merge.under_way',
      /MERGE_HEAD/,
    ],
    [
      'git holds the index',
      () => writeFileSync(join(stage.root, '.git/index.lock'), ''),
      'merge.under_way',
      /index\.lock/,
    ],
    [
      'there is no commit',
      () => stage.git('checkout', '-q', '--orphan', 'empty'),
      'merge.no_commit',
      /no commit/,
    ],
  ]
  for (const [name, mine, reason, words] of CASES)
    test(`RUN-18 merge changes nothing where ${name}`, async () => {
      mine()
      const before = stage.fingerprint()
      await assert.rejects(merge(), (error) => {
        assert.ok(isAgentPodError(error))
        assert.equal(error.reason, reason)
        assert.match(error.message, words)
        assert.ok(error.hint)
        return true
      })
      assert.equal(stage.fingerprint(), before)
      assert.ok(!existsSync(join(stage.root, '.git/agentpod-apply')))
    })

  test('merging with an old git is refused with a message', async () => {
    const bin = join(stage.directory, 'bin')
    const real = process.env['PATH']
      ?.split(':')
      .map((path) => join(path, 'git'))
      .find(existsSync)
    mkdirSync(bin)
    writeFileSync(
      join(bin, 'git'),
      `#!/bin/sh\ncase "$*" in *version) echo "git version 2.34.1";; *) exec ${real} "$@";; esac\n`,
    )
    chmodSync(join(bin, 'git'), 0o755)
    const repo = {
      ...(await stage.repository()),
      env: { ...stage.env, PATH: `${bin}:${process.env['PATH']}` },
    }
    const o = {
      tip: stage.git('rev-parse', NAME),
      name: NAME,
      message: 'm',
      now: 0,
      scratch: stage.scratch(),
    }
    await assert.rejects(
      mergeBranch(repo, o),
      (error) => isAgentPodError(error, 'unsupported') && /2\.34\.1/.test(error.message),
    )
  })
})
