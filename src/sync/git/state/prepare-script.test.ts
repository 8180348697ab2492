/** From a user's working copy to the inside: what arrives is what was there, by real git on both sides. */
import assert from 'node:assert/strict'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { Inside, openProjectState } from '../../testing/git-inside.ts'
import { GitProject, isGitDirectory, manifest } from '../../testing/git-project.ts'
import { KINDS, worktreeOf } from '../../testing/git-projects.ts'

const PATH = process.env['PATH'] ?? ''

let directory: string
let project: GitProject
let inside: Inside
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-in-'))
  project = new GitProject(directory, PATH)
  inside = new Inside(directory, PATH)
})
afterEach(() => rmSync(directory, { recursive: true }))

describe('the project arrives where', () => {
  for (const kind of KINDS)
    test(`RUN-12 the project arrives where ${kind.name}`, async () => {
      kind.make(project)
      const before = manifest(project.root)
      const { repository, state } = await openProjectState(project.root, project.env)
      await inside.prepare(repository, state)
      assert.deepEqual(manifest(project.root), before, 'the user’s repository is as it was')
      assert.equal(state.tree, project.addedTree())

      const wanted = manifest(project.root, isGitDirectory)
      const arrived = manifest(inside.workspace, isGitDirectory)
      for (const name of kind.ignored ?? []) assert.ok(wanted.delete(name), `${name} is in the working copy`)
      for (const name of kind.more ?? []) assert.ok(arrived.delete(name), `${name} arrived`)
      for (const name of kind.turned ?? []) {
        assert.notEqual(arrived.get(name), wanted.get(name))
        wanted.set(name, arrived.get(name) ?? 'missing')
      }
      assert.deepEqual(arrived, wanted)

      assert.equal(inside.remembered('tree'), state.tree)
      assert.equal(inside.remembered('commit'), state.commit ?? '')
      inside.git('fsck', '--full', '--strict')
      assert.equal(inside.git('remote'), '')
      if (state.branch === undefined) {
        assert.throws(() => inside.git('symbolic-ref', 'HEAD'))
        assert.equal(inside.git('for-each-ref'), '')
      } else assert.equal(inside.git('symbolic-ref', 'HEAD'), `refs/heads/${state.branch}`)
      if (state.commit !== undefined) {
        assert.equal(inside.git('rev-parse', 'HEAD'), state.commit)
        assert.equal(inside.git('diff-index', '--cached', 'HEAD', '--'), '')
      }
      assert.equal(inside.treeNow(), state.tree)
    })
})

test('a worktree beside others arrives with its own branch', async () => {
  const path = worktreeOf(project)
  writeFileSync(join(path, 'a'), 'changed in the worktree')
  const before = [manifest(project.root), manifest(path)]
  const { repository, state } = await openProjectState(path, project.env)
  await inside.prepare(repository, state)
  assert.deepEqual([manifest(project.root), manifest(path)], before)
  assert.equal(inside.git('symbolic-ref', 'HEAD'), 'refs/heads/feature')
  assert.deepEqual(manifest(inside.workspace, isGitDirectory), manifest(path, isGitDirectory))
})

describe('the agent’s repository', () => {
  beforeEach(async () => {
    project.init()
    for (let i = 0; i < 4; i++) {
      project.write('a', `${i}`)
      project.commitAll(`number ${i}`)
    }
    project.write('a', 'changed')
    project.write('new', 'new')
  })

  test('the agent’s repository shows uncommitted changes and accepts commits', async () => {
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state)
    assert.equal(inside.git('status', '--porcelain'), ' M a\n?? new')
    inside.git('commit', '-qam', 'by the agent')
    assert.equal(inside.git('log', '--format=%s', '-1'), 'by the agent')
    assert.equal(inside.git('log', '--format=%an', '-1'), 'agent')
    inside.git('gc', '-q', '--prune=now')
    assert.equal(inside.git('log', '--format=%s').split('\n').length, 5)
  })

  test('the agent’s repository has only the requested history', async () => {
    for (const [history, count] of [
      [1, 1],
      [2, 3],
      [50, 4],
    ] as const) {
      const { repository, state } = await openProjectState(project.root, project.env, { history })
      const other = new Inside(join(directory, `${history}`), PATH)
      await other.prepare(repository, state)
      assert.equal(other.git('log', '--format=%s').split('\n').length, count, `${history}`)
      other.git('fsck', '--full', '--strict')
    }
  })

  test('the agent’s repository has none of the user’s configuration', async () => {
    project.git('remote', 'add', 'origin', 'https://user:token@example.com/x.git')
    project.git('config', 'alias.st', 'status')
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state)
    assert.doesNotMatch(readFileSync(join(inside.workspace, '.git/config'), 'utf8'), /token|alias/)
  })

  test('the agent’s repository may be destroyed without losing our objects', async () => {
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state)
    rmSync(join(inside.workspace, '.git'), { recursive: true })
    assert.equal(inside.treeNow(), state.tree)
    assert.equal(inside.ours('cat-file', '-t', state.commit ?? ''), 'commit')
    inside.ours('fsck', '--full', '--strict')
    inside.ours('gc', '-q', '--prune=now')
    assert.equal(inside.ours('ls-tree', '--name-only', state.tree), 'a\nnew')
  })

  test('the agent’s repository shares its objects with ours', async () => {
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state)
    const [pack] = [...manifest(join(inside.stash, 'repo.git/objects/pack')).keys()].filter((name) =>
      name.endsWith('.pack'),
    )
    assert.equal(statSync(join(inside.stash, 'repo.git/objects/pack', pack ?? '')).nlink, 2)
  })

  for (const branch of ['feature/x', 'ü', "it's", '$(id)', 'a"b', '-x'])
    test(`the agent’s repository is on the branch ${branch}`, async () => {
      project.git('symbolic-ref', 'HEAD', `refs/heads/${branch}`)
      project.git('update-ref', 'HEAD', project.git('rev-parse', 'refs/heads/main'))
      const { repository, state } = await openProjectState(project.root, project.env)
      await inside.prepare(repository, state)
      assert.equal(inside.git('symbolic-ref', 'HEAD'), `refs/heads/${branch}`)
    })

  test('the agent’s repository is on the branch even if a tag has the same name', async () => {
    project.git('tag', 'main')
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state)
    assert.equal(inside.git('symbolic-ref', 'HEAD'), 'refs/heads/main')
  })
})

describe('directories of the environment', () => {
  beforeEach(() => {
    project.init()
    project.write('package.json', 'of the project')
    project.write('src/a', 'a')
    project.commitAll()
    mkdirSync(join(inside.workspace, 'node_modules/x'), { recursive: true })
    writeFileSync(join(inside.workspace, 'node_modules/x/index.js'), 'installed')
    writeFileSync(join(inside.workspace, 'package.json'), 'of an older build')
    mkdirSync(join(inside.workspace, 'src'), { recursive: true })
    writeFileSync(join(inside.workspace, 'src/left [over]'), 'by an install step')
  })

  test('directories of the environment are kept and do not count as changes, and the project’s own files win', async () => {
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state, { aside: ['node_modules'] })
    assert.equal(readFileSync(join(inside.workspace, 'node_modules/x/index.js'), 'utf8'), 'installed')
    assert.equal(readFileSync(join(inside.workspace, 'package.json'), 'utf8'), 'of the project')
    assert.equal(inside.git('status', '--porcelain'), '')
    assert.equal(inside.treeNow(), state.tree)
    writeFileSync(join(inside.workspace, 'src/left o'), 'by the agent')
    assert.equal(inside.git('status', '--porcelain', '-z'), '?? src/left o\0')
  })

  test('directories of the environment are kept when the project changes', async () => {
    const first = await openProjectState(project.root, project.env)
    await inside.prepare(first.repository, first.state, { aside: ['node_modules'] })
    project.remove('src')
    project.commitAll()
    const second = await openProjectState(project.root, project.env)
    await inside.prepare(second.repository, second.state, { aside: ['node_modules'], known: first.state })
    assert.deepEqual(
      [...manifest(inside.workspace, isGitDirectory).keys()],
      ['node_modules/x/index.js', 'package.json', 'src/left [over]'],
    )
    assert.equal(inside.git('status', '--porcelain'), '')
  })

  for (const isCommitted of [true, false])
    test(`a directory of the environment is kept where the project has a link to it, committed: ${isCommitted}`, async () => {
      project.link('node_modules', '/opt/modules')
      if (isCommitted) project.commitAll()
      const first = await openProjectState(project.root, project.env)
      await inside.prepare(first.repository, first.state, { aside: ['node_modules'] })
      project.write('src/a', 'changed')
      const second = await openProjectState(project.root, project.env)
      await inside.prepare(second.repository, second.state, { aside: ['node_modules'], known: first.state })
      assert.equal(readFileSync(join(inside.workspace, 'node_modules/x/index.js'), 'utf8'), 'installed')
      assert.equal(inside.git('status', '--porcelain'), ' M src/a')
      assert.equal(inside.treeNow(), second.state.tree)
    })

  test('a directory that is not excluded is replaced by the project’s', async () => {
    project.link('node_modules', '/opt/modules')
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state)
    assert.equal(readlinkSync(join(inside.workspace, 'node_modules')), '/opt/modules')
  })

  test('a line break in an excluded path cannot exclude the whole project', async () => {
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state, { aside: ['x\n*', '*'] })
    writeFileSync(join(inside.workspace, 'by the agent'), 'x')
    assert.match(inside.git('status', '--porcelain', '-z'), /by the agent/)
  })
})

describe('from one state to the next', () => {
  const KEEP = 200 * 1024
  let first: Awaited<ReturnType<typeof openProjectState>>
  beforeEach(async () => {
    project.init()
    project.write('.gitignore', '*.o\n')
    for (const name of ['a', 'b', 'dir/c', 'gone/x']) project.write(name, name)
    project.write('large', noise(KEEP))
    project.commitAll()
    project.write('uncommitted', noise(KEEP, 2))
    first = await openProjectState(project.root, project.env)
    await inside.prepare(first.repository, first.state)
    writeFileSync(join(inside.workspace, 'built.o'), 'built')
  })

  const steps: readonly { readonly name: string; readonly step: () => void; readonly bytes?: number }[] = [
    { name: 'nothing happened', step: () => undefined, bytes: 100 },
    {
      name: 'files changed',
      step: () => {
        project.write('a', 'changed')
        project.remove('gone')
        project.link('b', 'a')
        project.write('dir', 'a file now')
        project.write('deeper/than/before', 'new')
      },
      bytes: 2000,
    },
    {
      name: 'a commit was made',
      step: () => {
        project.write('a', 'changed')
        project.commitAll()
      },
      bytes: 2000,
    },
    { name: 'everything was committed', step: () => void project.commitAll(), bytes: 1000 },
    {
      name: 'the branch is another',
      step: () => {
        project.git('checkout', '-q', '-b', 'other')
        project.remove('a')
        project.commitAll()
      },
      bytes: 1000,
    },
    { name: 'HEAD is detached', step: () => void project.git('checkout', '-q', '--detach'), bytes: 100 },
    {
      name: 'history is unrelated',
      step: () => {
        project.git('checkout', '-q', '--orphan', 'new')
        project.git('rm', '-rfq', '.')
        project.write('a', 'other')
        project.commitAll()
      },
    },
    {
      name: 'a file is ignored by now',
      step: () => {
        project.write('.gitignore', '*.o\nuncommitted\n')
      },
      bytes: 1000,
    },
  ]
  const ways = [
    { way: '', isUntouched: false },
    { way: ', and nothing else wrote there', isUntouched: true },
  ]
  for (const { name, step, bytes, way, isUntouched } of steps.flatMap((one) =>
    ways.map((how) => ({ ...one, ...how })),
  ))
    test(`RUN-13 files follow to the next state where ${name}${way}`, async () => {
      step()
      const { repository, state } = await openProjectState(project.root, project.env)
      const [size = 0] = await inside.prepare(repository, state, { known: first.state, isUntouched })
      // What was not committed is not kept by us, so it is sent again where the tree is another and still has
      // it.
      const again = state.tree !== first.state.tree && project.has('uncommitted') ? KEEP : 0
      if (bytes !== undefined) assert.ok(size < bytes + again, `${size} bytes were sent`)
      const arrived = manifest(inside.workspace, isGitDirectory)
      assert.ok(arrived.delete('built.o'), 'what git ignores stays')
      const ignored = project.git('ls-files', '-oi', '--exclude-standard').split('\n')
      assert.deepEqual(
        arrived,
        manifest(project.root, (path) => isGitDirectory(path) || ignored.includes(path)),
      )
      assert.equal(inside.remembered('tree'), state.tree)
      assert.equal(inside.git('rev-parse', 'HEAD'), state.commit)
      inside.git('fsck', '--full', '--strict')
      inside.ours('fsck', '--full', '--strict')
      assert.equal(inside.treeNow(), state.tree)
    })

  test('files that changed in the sandbox are reset to the user’s state', async () => {
    writeFileSync(join(inside.workspace, 'a'), 'changed by a command of the start')
    appendFileSync(join(inside.workspace, '.git/config'), '[core]\n\thooksPath = /tmp\n')
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state, { known: first.state })
    assert.equal(readFileSync(join(inside.workspace, 'a'), 'utf8'), 'a')
    assert.equal(inside.treeNow(), state.tree)
    assert.doesNotMatch(readFileSync(join(inside.workspace, '.git/config'), 'utf8'), /hooksPath/)
  })

  test('a file that git ignored before gives way to one of the project', async () => {
    project.write('.gitignore', '')
    project.write('built.o', 'of the project')
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state, { known: first.state, isUntouched: true })
    assert.equal(readFileSync(join(inside.workspace, 'built.o'), 'utf8'), 'of the project')
    assert.equal(inside.treeNow(), state.tree)
  })

  test('a file of the sandbox that git does not ignore any more is still no change', async () => {
    project.write('.gitignore', '*.tmp\n')
    const { repository, state } = await openProjectState(project.root, project.env)
    await inside.prepare(repository, state, { known: first.state, isUntouched: true })
    assert.equal(inside.treeNow(), state.tree)
    assert.doesNotMatch(inside.git('status', '--porcelain'), /built/)
  })

  test('an unavailable known state is ignored', async () => {
    project.write('a', 'changed')
    const { repository, state } = await openProjectState(project.root, project.env)
    const none = { commit: 'f'.repeat(40), tree: 'e'.repeat(40), shallow: ['d'.repeat(40)] }
    const [size = 0] = await inside.prepare(repository, state, { known: none })
    assert.ok(size > KEEP)
    inside.git('fsck', '--full', '--strict')
  })

  test('an older commit behind the shallow boundary is sent completely', async () => {
    const oldest = project.commitAll('oldest')
    for (let i = 0; i < 5; i++) {
      project.write(`only in ${i}`, noise(500))
      project.commitAll()
      project.remove(`only in ${i}`)
    }
    const latest = await openProjectState(project.root, project.env, { history: 1 })
    const other = new Inside(join(directory, 'other'), PATH)
    await other.prepare(latest.repository, latest.state)
    project.git('reset', '-q', '--hard', oldest)
    project.git('checkout', '-q', `${latest.state.commit}~2`)
    const older = await openProjectState(project.root, project.env, { history: 2 })
    await other.prepare(older.repository, older.state, { known: latest.state })
    assert.deepEqual(manifest(other.workspace, isGitDirectory), manifest(project.root, isGitDirectory))
    other.git('fsck', '--full', '--strict')
    other.git('log', '-p')
  })
})

describe('submodules', () => {
  beforeEach(() => {
    const library = new GitProject(directory, PATH, 'library').init()
    library.write('code', 'one')
    library.commitAll()
    const inner = new GitProject(directory, PATH, 'inner').init()
    inner.write('core', 'inner')
    inner.commitAll()
    library.git('submodule', '--quiet', 'add', inner.root, 'in ner')
    library.commitAll()
    project.init()
    project.write('a', 'a')
    project.git('submodule', '--quiet', 'add', library.root, 'libs/one')
    project.git('submodule', '--quiet', 'add', library.root, 'libs/two')
    project.git('submodule', '--quiet', 'update', '--init', '--recursive')
    project.commitAll()
    project.git('submodule', '--quiet', 'deinit', '-f', 'libs/two')
  })
  const isGit = (path: string): boolean => path.split('/').at(-1) === '.git'

  test('submodules arrive as repositories, and unfetched ones are empty', async () => {
    const before = manifest(project.root)
    const { repository, state } = await openProjectState(project.root, project.env)
    assert.deepEqual(
      state.submodules.map(({ path, isDirty }) => [path, isDirty]),
      [
        ['libs/one', false],
        ['libs/one/in ner', false],
      ],
    )
    await inside.prepare(repository, state)
    assert.deepEqual(manifest(project.root), before)
    assert.deepEqual(manifest(inside.workspace, isGit), manifest(project.root, isGit))
    assert.ok(existsSync(join(inside.workspace, 'libs/two')))
    assert.equal(inside.git('status', '--porcelain'), '')
    assert.equal(inside.gitAt('libs/one', 'rev-parse', 'HEAD'), project.git('rev-parse', 'HEAD:libs/one'))
    assert.equal(inside.gitAt('libs/one/in ner', 'status', '--porcelain'), '')
  })

  test('submodules at another commit arrive as they are', async () => {
    project.write('libs/one/code', 'changed')
    project.write('libs/one/new', 'new')
    project.git('-C', 'libs/one/in ner', 'commit', '-q', '--allow-empty', '-m', 'further')
    const { repository, state } = await openProjectState(project.root, project.env)
    assert.deepEqual(
      state.submodules.map(({ isDirty }) => isDirty),
      [true, true],
    )
    assert.deepEqual(state.changed, [], 'they are not part of the project’s own tree')
    assert.match(state.notes.join('\n'), /submodule libs\/one is not at the commit that the project records/)
    await inside.prepare(repository, state)
    assert.deepEqual(manifest(inside.workspace, isGit), manifest(project.root, isGit))
    assert.equal(inside.gitAt('libs/one', 'status', '--porcelain'), ' M code\n M "in ner"\n?? new')
  })

  test('submodules arrive at the recorded commit in a clean state', async () => {
    project.git('-C', 'libs/one', 'commit', '-q', '--allow-empty', '-m', 'further')
    project.write('libs/one/code', 'changed')
    const { repository, state } = await openProjectState(project.root, project.env, { isClean: true })
    await inside.prepare(repository, state)
    assert.equal(inside.git('status', '--porcelain'), '')
    assert.equal(readFileSync(join(inside.workspace, 'libs/one/code'), 'utf8'), 'one')
  })

  test('removed submodules are removed in the sandbox', async () => {
    const first = await openProjectState(project.root, project.env)
    await inside.prepare(first.repository, first.state)
    project.git('rm', '-qf', 'libs/one', 'libs/two')
    project.commitAll()
    const second = await openProjectState(project.root, project.env)
    await inside.prepare(second.repository, second.state, { known: first.state })
    assert.deepEqual(manifest(inside.workspace, isGit), manifest(project.root, isGit))
  })

  test('submodules that point to another repository of this machine are not copied', async () => {
    const secret = new GitProject(directory, PATH, 'secret').init()
    secret.write('secret', 'secret')
    secret.commitAll()
    project.remove('libs/one')
    project.write('libs/one/.git', `gitdir: ${secret.root}/.git\n`)
    const { state } = await openProjectState(project.root, project.env)
    assert.deepEqual(state.submodules, [])
  })
})

function noise(bytes: number, start = 1): Buffer {
  let seed = start
  return Buffer.from(
    Array.from({ length: bytes }, () => {
      seed = (seed * 48271) % 2147483647
      return seed & 255
    }),
  )
}
