/** What the script inside makes of a workspace, by a real shell and a real git. */
import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type Files, ResultStage } from '../testing/result-stage.ts'

/** Modes and paths of a tree. */
function listed(stage: ResultStage, tree: string): string[] {
  const lines = stage.inStash('ls-tree', '-r', '-z', tree).split('\0').filter(Boolean)
  return lines.map((line) => `${line.slice(0, 6)} ${line.slice(line.indexOf('\t') + 1)}`)
}

const FILE = '100644 '

const CASES: readonly {
  name: string
  before?: Files
  after: Files
  aside?: readonly string[]
  files: readonly string[]
  left?: readonly string[]
}[] = [
  { name: 'nothing', before: { a: 'a' }, after: {}, files: ['100644 a'] },
  {
    name: 'files that are changed, new, removed, made executable and linked',
    before: { a: 'a', b: 'b', c: 'c', d: 'd' },
    after: { a: 'A', b: null, 'x/y/z': 'z', c: { run: 'c' }, d: { link: 'a' } },
    files: ['100644 a', '100755 c', '120000 d', '100644 x/y/z'],
  },
  {
    name: 'what git ignores stays inside, and what is tracked stays tracked',
    before: { '.gitignore': '*.log\nout/\n', 'kept.log': '1' },
    after: { 'kept.log': '2', 'new.log': 'x', 'out/x': 'x', y: 'y' },
    files: ['100644 .gitignore', '100644 kept.log', '100644 y'],
  },
  {
    name: 'directories that are aside are not looked at',
    before: { a: 'a', 'node_modules/tracked': '1' },
    after: { 'node_modules/tracked': '2', 'node_modules/new': 'x', 'web/node_modules/new': 'x' },
    aside: ['node_modules'],
    files: ['100644 a', '100644 node_modules/tracked', '100644 web/node_modules/new'],
  },
  {
    name: 'no filter and no attribute changes a byte',
    before: { '.gitattributes': '* text=auto filter=lfs ident\n*.u working-tree-encoding=UTF-16\n' },
    after: { 'crlf.txt': 'a\r\nb\r\n', 'x.u': 'plain', id: '$Id$' },
    files: ['100644 .gitattributes', '100644 crlf.txt', '100644 id', '100644 x.u'],
  },
  {
    name: 'names that a shell would take for something else',
    before: {},
    after: {
      '-n': '1',
      '$(id)': '2',
      "it's": '3',
      'a b': '4',
      ':(glob)*': '5',
      '*': '6',
      ü: '7',
      '\\0': '8',
      '"q"': '9',
    },
    files: ['"q"', '$(id)', '*', '-n', ':(glob)*', '\\0', 'a b', "it's", 'ü'].map((name) => FILE + name),
  },
  {
    name: 'names with control characters are left out and named, and those that were there stay',
    before: { 'old\tname': '1' },
    after: { 'old\tname': '2', 'new\rname': 'x', 'new\nname': 'x', 'dir\n/x': 'x', a: 'a' },
    files: ['100644 a', '100644 old\tname'],
    left: ['dir?/x', 'new?name', 'new?name'],
  },
  {
    name: 'names that mean .git somewhere are left out and named',
    before: { a: 'a' },
    after: { 'x/.GIT/config': 'x', 'git~1': 'x', 'y/.g\u200cit/z': 'x', '.git /x': 'x' },
    files: ['100644 a'],
    left: ['.git /x', 'git~1', 'x/.GIT/config', 'y/.g?it/z'],
  },
]

describe('the result of a workspace', () => {
  for (const { name, before, after, aside = [], files, left = [] } of CASES)
    test(`the result of a workspace: ${name}`, () => {
      using stage = new ResultStage(before)
      stage.work(after)
      const { header } = stage.result(aside)
      assert.deepEqual(listed(stage, header.tree).sort(), [...files].sort())
      assert.deepEqual(header.leftOut.toSorted(), left)
      assert.deepEqual(readdirSync(stage.stash), ['repo.git'], 'nothing is left behind')
    })

  for (const { name, before, after, aside = [] } of CASES)
    test(`the result is the same if only the paths that changed are looked at: ${name}`, () => {
      using stage = new ResultStage(before)
      stage.work(after)
      // A name with a control character is not on such a list, and then there is no list.
      const only = Object.keys(after).filter((path) => !aside.some((out) => path.startsWith(`${out}/`)))
      const { header, pack } = stage.result(aside)
      const short = stage.result(aside, undefined, only)
      assert.deepEqual(short.header, header)
      assert.deepEqual(short.pack, pack)
    })

  test('the result is the same if only the paths that changed are looked at, directories too', () => {
    const large = 'x'.repeat(3000)
    using stage = new ResultStage({
      '.gitignore': '*.log\nout/\n',
      'old/a': 'a',
      'old/deep/b': 'b',
      'gone/c': 'c',
      'file/d': 'd',
      e: 'e',
      'same/f': large,
      'hidden/g': 'g',
    })
    stage.work({ 'gone/c': null, file: null, e: null })
    rmSync(join(stage.workspace, 'gone'), { recursive: true })
    renameSync(join(stage.workspace, 'old'), join(stage.workspace, 'new'))
    stage.work({ file: 'now a file', 'e/now/a': 'directory', 'new/x.log': 'ignored', 'out/y': 'ignored' })
    stage.work({ 'big/file': large, 'new/big': `${large}y`, 'cloned/h': 'h', 'cloned/.gitignore': 'skip\n' })
    stage.gitIn(join(stage.workspace, 'cloned'), 'init', '-q')
    stage.work({ 'cloned/skip': 'x', 'cloned/deep/i': 'i' })
    const only = ['old', 'new', 'gone', 'file', 'e', 'out', 'big', 'cloned', 'temporary', 'was/never/there']
    const { header, pack } = stage.result(['hidden'], 2000)
    const short = stage.result(['hidden'], 2000, only)
    assert.deepEqual(short.header, { ...header, tooLarge: short.header.tooLarge })
    assert.deepEqual(
      short.header.tooLarge.toSorted((a, b) => a.sizeBytes - b.sizeBytes),
      header.tooLarge.toSorted((a, b) => a.sizeBytes - b.sizeBytes),
    )
    assert.deepEqual(short.pack, pack)
  })

  test('a long list of paths has the result of a short one', () => {
    const names = Array.from({ length: 40 }, (_, n) => `src/part ${n % 4}/ü-${n}`)
    const before = Object.fromEntries(names.map((name) => [name, 'before']))
    using stage = new ResultStage({ ...before, 'src/other/same': 'same', '.gitignore': '*.log\n' })
    const [hidden = '', removed = ''] = names
    const times = statSync(join(stage.workspace, hidden))
    stage.work(Object.fromEntries(names.map((name) => [name, 'after!'])))
    // A change that keeps size and time is found by reading the file.
    utimesSync(join(stage.workspace, hidden), times.atime, times.mtime)
    stage.work({ [removed]: null, 'src/part 9/new': 'new', 'src/part 9/x.log': 'ignored' })
    const only = [...names, 'src/part 9']
    const { header, pack } = stage.result([], undefined, only)
    // Such a name keeps the list from being shortened.
    const exact = stage.result([], undefined, [...only, 'never"there'])
    assert.deepEqual(exact, { header, pack })
    assert.deepEqual(
      listed(stage, header.tree).sort(),
      [...names.filter((name) => name !== removed), 'src/other/same', 'src/part 9/new', '.gitignore']
        .map((path) => FILE + path)
        .sort(),
    )
    assert.equal(stage.inStash('cat-file', 'blob', `${header.tree}:${hidden}`), 'after!')
  })

  for (const [name, only] of [
    ['of what is gone', ['a', 'src/b.js']],
    ['of what is ignored', ['x.log']],
    ['of what was never there', ['temporary']],
  ] as const)
    test(`a list ${name} does not mean everything`, () => {
      using stage = new ResultStage({ a: 'a', 'src/b.js': 'b', '.gitignore': '*.log\n', c: 'c' })
      stage.work({ a: null, 'src/b.js': null, 'x.log': 'x', 'not-listed': 'x', c: 'C' })
      const { header } = stage.result([], undefined, only)
      const kept = ['.gitignore', 'a', 'c', 'src/b.js'].filter(
        (path) => !(only as readonly string[]).includes(path),
      )
      assert.deepEqual(
        listed(stage, header.tree),
        kept.map((path) => FILE + path),
      )
      assert.equal(
        stage.inStash('rev-parse', `${header.tree}:c`),
        stage.inStash('rev-parse', `${stage.tree}:c`),
      )
    })

  test('a path on the list is read, also if its size and time are those of the start', () => {
    using stage = new ResultStage({ '.gitignore': '*.log\n', a: 'one', 'b.log': 'one', 'dir/c': 'one' })
    const before = ['a', 'b.log', 'dir/c'].map((path) => join(stage.workspace, path))
    const past = new Date('2020-01-01T00:00:00Z')
    for (const path of before) utimesSync(path, past, past)
    const index = { GIT_INDEX_FILE: join(stage.stash, 'repo.git/index'), GIT_WORK_TREE: stage.workspace }
    const env = { ...stage.env, ...index, GIT_DIR: join(stage.stash, 'repo.git') }
    stage.gitWith(env, 'read-tree', stage.tree)
    stage.gitWith(env, 'update-index', '--refresh')
    for (const path of before) {
      writeFileSync(path, 'two')
      utimesSync(path, past, past)
    }
    const { header } = stage.result([], undefined, ['a', 'b.log', 'dir'])
    for (const path of ['a', 'b.log', 'dir/c'])
      assert.equal(stage.inStash('cat-file', 'blob', `${header.tree}:${path}`), 'two')
    assert.equal(stage.result().header.tree, stage.tree, 'the control: times and sizes alone show nothing')
  })

  test('with submodules everything is looked at, whatever the list says', () => {
    using stage = new ResultStage({ a: 'a', b: 'b' })
    stage.git('update-index', '--add', '--cacheinfo', `160000,${stage.commit},lib`)
    stage.git('commit', '-q', '-m', 'a submodule')
    stage.begin()
    stage.work({ a: 'A', b: 'B' })
    assert.deepEqual(stage.result([], undefined, ['a']).header, stage.result().header)
  })

  test('a result lists files that are too large, unless they are ignored or unchanged', () => {
    const large = 'x'.repeat(3000)
    using stage = new ResultStage({ same: large, changed: large, '.gitignore': 'ignored\n', a: 'a' })
    stage.work({ changed: `${large}y`, 'dir/new': `${large}yy`, ignored: large, a: 'A', 'aside/x': large })
    const { header } = stage.result(['aside'], 2000)
    assert.deepEqual(
      header.tooLarge.toSorted((a, b) => a.sizeBytes - b.sizeBytes),
      [
        { path: 'changed', sizeBytes: 3001 },
        { path: 'dir/new', sizeBytes: 3002 },
      ],
    )
    assert.deepEqual(header.leftOut, [])
    assert.deepEqual(
      listed(stage, header.tree),
      ['.gitignore', 'a', 'changed', 'same'].map((name) => FILE + name),
    )
    assert.equal(
      stage.inStash('rev-parse', `${header.tree}:changed`),
      stage.inStash('rev-parse', `${stage.tree}:changed`),
    )
  })

  test('a result has repositories that the agent created as plain files', () => {
    using stage = new ResultStage({ '.gitignore': 'node_modules/\n', 'dir/tracked': '1' })
    for (const path of ['app', 'app/lib/inner', 'dir', 'node_modules/x']) {
      mkdirSync(join(stage.workspace, path), { recursive: true })
      stage.gitIn(join(stage.workspace, path), 'init', '-q')
      stage.work({ [`${path}/file`]: path })
    }
    stage.work({
      'app/.gitignore': 'dist/\n',
      'app/dist/x': 'x',
      'app/node_modules/y': 'y',
      'app/big': 'x'.repeat(3000),
    })
    stage.gitIn(join(stage.workspace, 'app'), 'add', 'file')
    stage.gitIn(join(stage.workspace, 'app'), 'commit', '-q', '-m', 'x')
    const { header } = stage.result([], 2000)
    assert.deepEqual(
      listed(stage, header.tree),
      ['.gitignore', 'app/.gitignore', 'app/file', 'app/lib/inner/file', 'dir/file', 'dir/tracked'].map(
        (name) => FILE + name,
      ),
    )
    assert.deepEqual(header.tooLarge, [{ path: 'app/big', sizeBytes: 3000 }])
    assert.deepEqual(header.leftOut, [])
  })

  test('a result leaves submodules unchanged and lists changed ones', () => {
    using stage = new ResultStage()
    const [one, two] = [stage.commit, stage.git('commit-tree', '-m', 'x', stage.tree)]
    stage.git(
      'update-index',
      '--add',
      '--cacheinfo',
      `160000,${one},sub`,
      '--cacheinfo',
      `160000,${two},deep/sub`,
    )
    stage.git('commit', '-q', '-m', 'submodules')
    stage.begin()
    mkdirSync(join(stage.workspace, 'deep/sub'), { recursive: true })
    stage.work({ 'sub/file': 'x', 'sub/large': 'x'.repeat(3000), 'a.txt': 'changed' })
    stage.gitIn(join(stage.workspace, 'sub'), 'init', '-q')
    const { header } = stage.result([], 2000)
    assert.deepEqual(header.submodules, ['sub'])
    assert.deepEqual([header.tooLarge, header.leftOut], [[], []])
    assert.deepEqual(listed(stage, header.tree), [
      '100644 a.txt',
      '160000 deep/sub',
      '100644 src/b.js',
      '160000 sub',
    ])
  })

  test('RUN-14 a result tells what the agent committed itself, whatever it did to history', () => {
    using stage = new ResultStage()
    for (const subject of ['first', 'sec\u001bond "quoted" \\'])
      stage.gitIn(stage.workspace, 'commit', '-q', '--allow-empty', '-m', subject)
    assert.deepEqual(stage.result().header.commits, ['sec?ond "quoted" \\', 'first'])
    stage.gitIn(stage.workspace, 'checkout', '-q', '--orphan', 'other')
    stage.gitIn(stage.workspace, 'commit', '-q', '--allow-empty', '-m', 'rewritten')
    assert.deepEqual(stage.result().header.commits, ['rewritten'])
  })

  for (const [name, wreck] of [
    ['is gone', (git) => rmSync(git, { recursive: true })],
    ['has a head of rubbish', (git) => writeFileSync(join(git, 'HEAD'), '\0\0')],
    ['has settings of rubbish', (git) => writeFileSync(join(git, 'config'), '[[[')],
    ['has a locked index', (git) => writeFileSync(join(git, 'index.lock'), '')],
  ] as [string, (git: string) => void][])
    test(`RUN-14 a result does not need the workspace’s own .git: it ${name}`, () => {
      using stage = new ResultStage()
      wreck(join(stage.workspace, '.git'))
      stage.work({ new: 'x' })
      const { header } = stage.result()
      assert.deepEqual(
        listed(stage, header.tree),
        ['a.txt', 'new', 'src/b.js'].map((path) => FILE + path),
      )
      assert.deepEqual(header.commits, [])
    })

  test('a result lists files that cannot be read', {
    skip: process.getuid?.() === 0 && 'root reads everything',
  }, () => {
    using stage = new ResultStage()
    stage.work({ secret: 'x', other: 'y' })
    chmodSync(join(stage.workspace, 'secret'), 0)
    assert.deepEqual(stage.result().header.leftOut, ['secret'])
  })

  test('a result is found with a valid index, and a forged index is not trusted', () => {
    using stage = new ResultStage()
    const index = join(stage.stash, 'repo.git/index')
    const env = { ...stage.env, GIT_DIR: join(stage.stash, 'repo.git'), GIT_WORK_TREE: stage.workspace }
    stage.gitWith(env, 'read-tree', '--reset', '-u', stage.tree)
    assert.ok(existsSync(index))
    stage.work({ 'a.txt': 'ONE\ntwo\nthree\n' })
    const changed = stage.result().header.tree
    assert.notEqual(changed, stage.tree)
    for (const content of ['', 'rubbish']) {
      writeFileSync(index, content)
      assert.equal(stage.result().header.tree, changed)
    }
  })
})

describe('results that cannot be collected', () => {
  for (const [name, wreck, words] of [
    [
      'the repository of the start is gone',
      (stage) => rmSync(join(stage.stash, 'repo.git'), { recursive: true }),
      /damaged/,
    ],
    ['the stash is gone', (stage) => rmSync(stage.stash, { recursive: true }), /damaged/],
    [
      'its objects are gone',
      (stage) => rmSync(join(stage.stash, 'repo.git/objects'), { recursive: true }),
      /damaged/,
    ],
    ['its pack is cut short', (stage) => cutPacks(join(stage.stash, 'repo.git/objects')), /damaged/],
    [
      'the workspace is gone',
      (stage) => rmSync(stage.workspace, { recursive: true }),
      /workspace no longer exists/,
    ],
  ] as [string, (stage: ResultStage) => void, RegExp][])
    test(`collecting a result fails with a message: ${name}`, () => {
      using stage = new ResultStage()
      wreck(stage)
      const { code, out, words: said } = stage.run()
      assert.notEqual(code, 0)
      assert.equal(out.length, 0)
      assert.match(said, words)
    })
})

function cutPacks(objects: string): void {
  for (const name of readdirSync(objects, { recursive: true, encoding: 'utf8' })) {
    const path = join(objects, name)
    if (!/^(?:[0-9a-f]{2}\/|pack\/.*\.pack$)/.test(name)) continue
    chmodSync(path, 0o600)
    truncateSync(path, 10)
  }
}
