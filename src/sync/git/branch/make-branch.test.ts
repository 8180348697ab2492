/**
 * From what an agent did in a workspace to a branch in the user's repository, by a real git on both sides.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { receiveResult } from '../result/receive.ts'
import { ResultStage } from '../testing/result-stage.ts'
import { type Branch, type BranchOptions, makeBranch } from './make-branch.ts'

let stage: ResultStage
beforeEach(() => {
  stage = new ResultStage()
})
afterEach(() => stage[Symbol.dispose]())

const NOW = 1_800_000_000_000
const OPTIONS: BranchOptions = {
  name: 'agentpod/x-claude-1',
  message: 'Fix the test',
  coAuthor: 'Claude <claude@example.com>',
  withGated: false,
  now: NOW,
}

async function branch(options: Partial<BranchOptions> = {}): Promise<Branch | undefined> {
  return makeBranch(await stage.repository(), await stage.receiveResult(), { ...OPTIONS, ...options })
}

describe('making a branch', () => {
  test('RUN-14 a branch is one commit on the base, by the user, with the agent as co-author, and nothing else changes', async () => {
    stage.work({ 'a.txt': 'one\n2\nthree\n', 'new/deep/c.txt': 'c', 'src/b.js': null })
    const before = stage.fingerprint()
    const made = await branch()
    assert.ok(made)
    assert.equal(stage.git('rev-parse', 'agentpod/x-claude-1'), made.commit)
    assert.equal(stage.git('rev-parse', `${made.commit}^`), stage.commit)
    assert.equal(
      stage.git('log', '-1', '--format=%an <%ae> %cn %at %B', made.commit).trimEnd(),
      'Some One <some.one@example.com> Some One 1800000000 Fix the test\n\nCo-authored-by: Claude <claude@example.com>',
    )
    assert.equal(
      stage.git('diff', '--name-status', 'main', made.name),
      'M\ta.txt\nA\tnew/deep/c.txt\nD\tsrc/b.js',
    )
    assert.equal(stage.git('show', `${made.name}:a.txt`), 'one\n2\nthree')
    stage.git('fsck', '--strict', '--full')
    stage.git('branch', '-D', made.name)
    assert.equal(stage.fingerprint(), before)
  })

  test('RUN-14 a branch has the user’s uncommitted files as a commit of their own', async () => {
    stage.write(stage.root, { 'a.txt': 'mine\n', untracked: 'u' })
    stage.git('add', '-A')
    const tree = stage.git('write-tree')
    stage.git('reset', '-q')
    stage.begin(stage.commit, tree)
    stage.inStash('fetch', '-q', stage.root, `${stage.git('commit-tree', '-m', 'x', tree)}:refs/x`)
    stage.work({ 'a.txt': 'mine\nagent’s\n', untracked: 'u' })
    const made = await branch()
    assert.equal(
      stage.git('log', '--format=%s', `main..${made?.name}`),
      'Fix the test\nUncommitted files at the start of the run',
    )
    assert.equal(stage.git('diff', '--name-only', `${made?.name}^`, made?.name ?? ''), 'a.txt')
    assert.equal(stage.git('rev-parse', `${made?.name}^^{tree}`), tree)
    assert.equal(made?.start, stage.git('rev-parse', `${made?.name}^`))
  })

  test('a branch can use objects that only a scratch directory has', async () => {
    stage.write(stage.workspace, { untracked: 'u' })
    stage.gitIn(stage.workspace, 'add', '-A')
    const tree = stage.gitIn(stage.workspace, 'write-tree')
    stage.inStash(
      'fetch',
      '-q',
      stage.workspace,
      `${stage.gitIn(stage.workspace, 'commit-tree', '-m', 'x', tree)}:refs/x`,
    )
    stage.tree = tree
    stage.work({ more: 'm' })
    const { header, pack } = stage.result()
    const received = await receiveResult(await stage.repository(), {
      tree,
      commit: stage.commit,
      expected: header.tree,
      pack: Readable.from([pack]),
      scratch: stage.scratch(),
      alsoObjects: [join(stage.workspace, '.git/objects')],
    })
    const made = await makeBranch(await stage.repository(), received, OPTIONS)
    assert.equal(stage.git('show', `${made?.name}:untracked`), 'u')
    stage.git('fsck', '--strict', '--full')
  })

  test('RUN-19 a branch is the first one in a repository without a commit', async () => {
    stage.git('update-ref', '-d', 'HEAD')
    const empty = stage.git('hash-object', '-t', 'tree', '-w', '/dev/null')
    stage.inStash('hash-object', '-t', 'tree', '-w', '/dev/null')
    stage.commit = ''
    stage.tree = empty
    stage.work({ new: 'x' })
    const made = await branch()
    assert.equal(stage.git('rev-list', '--count', made?.name ?? ''), '1')
    assert.equal(stage.git('show', `${made?.name}:new`), 'x')
  })

  test('a branch has gated files only on request', async () => {
    stage.work({ 'a.txt': 'A', '.vscode/tasks.json': '{}', Makefile: 'all:' })
    const without = await branch()
    assert.equal(stage.git('diff', '--name-only', 'main', without?.name ?? ''), 'a.txt')
    const received = await stage.receiveResult()
    assert.deepEqual(
      received.gate.map(({ path, kind }) => `${kind} ${path}`),
      ['editor .vscode/tasks.json', 'build Makefile'],
    )
    const blob = stage.gitIn(stage.workspace, 'hash-object', '.vscode/tasks.json')
    assert.throws(() => stage.git('cat-file', '-e', blob), 'nor is it anywhere in the repository')
    const all = await branch({ name: 'agentpod/all-1', withGated: true })
    assert.equal(
      stage.git('diff', '--name-only', 'main', all?.name ?? ''),
      '.vscode/tasks.json\nMakefile\na.txt',
    )
  })

  test('no branch is made if nothing is left to commit', async () => {
    stage.work({ Makefile: 'all:' })
    assert.equal(await branch(), undefined)
    assert.equal(stage.git('branch', '--list', 'agentpod/*'), '')
  })

  test('RUN-19 an existing branch is left alone', async () => {
    stage.work({ 'a.txt': 'x' })
    stage.git('branch', 'agentpod/x-claude-1')
    await assert.rejects(branch(), (error) => isAgentPodError(error, 'already_exists'))
    assert.equal(stage.git('rev-parse', 'agentpod/x-claude-1'), stage.commit)
  })

  for (const name of ['agentpod', 'agentpod/x-claude-1/more'])
    test(`a branch is refused where ${name} is in the way`, async () => {
      stage.work({ 'a.txt': 'x' })
      stage.git('branch', name)
      await assert.rejects(branch(), (error) => isAgentPodError(error, 'already_exists'))
    })

  test('a branch has an author even if git has no name for the user', async () => {
    writeFileSync(join(stage.directory, 'home/.gitconfig'), '[user]\n\tuseConfigOnly = true\n')
    stage.work({ 'a.txt': 'x' })
    const made = await branch()
    assert.equal(
      stage.git('log', '-1', '--format=%an <%ae>', made?.name ?? ''),
      'AgentPod <agentpod@localhost>',
    )
  })

  test('a commit message is text, whatever the prompt was', async () => {
    stage.work({ 'a.txt': 'x' })
    const made = await branch({ message: 'a\u001b[31m\r\n\0b\ud800', coAuthor: 'x\nSigned-off-by: y' })
    assert.equal(
      stage.git('log', '-1', '--format=%B', made?.name ?? ''),
      'a[31m\nb�\n\nCo-authored-by: x Signed-off-by: y\n',
    )
  })

  test('a branch is made in a shallow clone and in a linked working tree', async () => {
    stage.git('commit', '-q', '--allow-empty', '-m', 'second')
    const clone = join(stage.directory, 'clone')
    stage.gitIn(stage.directory, 'clone', '-q', '--depth=1', `file://${stage.root}`, clone)
    stage.gitIn(clone, 'worktree', 'add', '-q', join(stage.directory, 'linked'))
    stage.begin()
    stage.work({ 'a.txt': 'x' })
    for (const [i, root] of [clone, join(stage.directory, 'linked')].entries()) {
      const made = await makeBranch(
        await stage.repository(root),
        await stage.receiveResult(stage.result(), root),
        {
          ...OPTIONS,
          name: `agentpod/s-${i}`,
        },
      )
      assert.equal(stage.gitIn(root, 'rev-list', '--count', made?.name ?? ''), '2')
      stage.gitIn(root, 'fsck', '--strict')
    }
  })

  test('RUN-19 a branch is not half made on a full disk', async () => {
    stage.work({ 'a.txt': 'x' })
    const received = await stage.receiveResult()
    // A git that finds no space when it unpacks into the user's repository.
    const bin = join(stage.directory, 'bin')
    mkdirSync(bin)
    writeFileSync(
      join(bin, 'git'),
      '#!/bin/sh\ncase "$*" in *index-pack*) echo "fatal: write error: No space left on device" >&2; exit 128;; esac\nexec "$REAL" "$@"\n'.replace(
        '"$REAL"',
        `"${process.env['PATH']
          ?.split(':')
          .map((path) => join(path, 'git'))
          .find(existsSync)}"`,
      ),
    )
    chmodSync(join(bin, 'git'), 0o755)
    const before = stage.fingerprint()
    const repo = {
      ...(await stage.repository()),
      env: { ...stage.env, PATH: `${bin}:${process.env['PATH']}` },
    }
    await assert.rejects(
      makeBranch(repo, received, OPTIONS),
      (error) => isAgentPodError(error, 'resource_exhausted') && error.reason === 'disk.full',
    )
    assert.equal(stage.fingerprint(), before)
  })

  test('RUN-14 a branch exists or not, and the repository is otherwise unchanged, wherever the process is killed', {
    timeout: 60_000,
  }, async () => {
    stage.work({ 'a.txt': 'x', 'new.txt': 'y' })
    const { header, pack } = stage.result()
    const file = join(stage.directory, 'result.pack')
    writeFileSync(file, pack)
    const before = stage.fingerprint()
    const begun = performance.now()
    assert.equal(await once(header.tree, file, undefined), 0)
    const wholeMs = performance.now() - begun
    const tip = stage.git('rev-parse', OPTIONS.name)
    for (let i = 1; i <= 8; i++) {
      stage.git('branch', '-D', OPTIONS.name)
      await once(header.tree, file, (wholeMs * i) / 9)
      const found = stage.git('branch', '--list', '--format=%(objectname)', OPTIONS.name)
      assert.ok(found === '' || found === tip, found)
      stage.git('fsck', '--strict', '--connectivity-only')
      if (found === '') stage.git('branch', OPTIONS.name, 'main')
    }
    stage.git('branch', '-D', OPTIONS.name)
    assert.equal(stage.fingerprint(), before)
  })
})

/** Everything from the pack to the branch in a process of its own, which is killed after so long. */
function once(tree: string, pack: string, killAfterMs: number | undefined): Promise<number | null> {
  const program = `
    const { receiveResult } = await import(${JSON.stringify(new URL('../result/receive.ts', import.meta.url).href)})
    const { makeBranch } = await import(${JSON.stringify(new URL('./make-branch.ts', import.meta.url).href)})
    const { openRepository } = await import(${JSON.stringify(new URL('../plumbing/repository.ts', import.meta.url).href)})
    const o = JSON.parse(process.argv[1])
    const repo = await openRepository(o.root, o.env)
    const received = await receiveResult(repo, o)
    await makeBranch(repo, received, o.options)`
  const { root, env, commit } = stage
  const o = {
    root,
    env,
    tree: stage.tree,
    commit,
    expected: tree,
    pack,
    scratch: stage.scratch(),
    options: OPTIONS,
  }
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(o)], {
    stdio: 'ignore',
    detached: true,
  })
  const { pid } = child
  // Git and all, as if the machine lost power.
  const timer = killAfterMs && pid && setTimeout(() => process.kill(-pid, 'SIGKILL'), killAfterMs)
  return new Promise((resolve) =>
    child.on('close', (code) => {
      if (timer) clearTimeout(timer)
      resolve(code)
    }),
  )
}
