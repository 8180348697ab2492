import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { showHiddenInLines } from '../../../util/hidden-characters.ts'
import { type Files, ResultStage } from '../testing/result-stage.ts'
import { changesOf, diffOf } from './diff.ts'
import { userGit } from './quarantine.ts'

function commit(stage: ResultStage, files: Files): string {
  stage.write(stage.root, files)
  stage.git('add', '-A')
  stage.git('commit', '-q', '--allow-empty', '-m', 'x')
  return stage.git('rev-parse', 'HEAD^{tree}')
}

describe('the changes between two trees', () => {
  test('changes between trees are listed per file, with kinds, modes and lines', async () => {
    using stage = new ResultStage({
      same: 'x',
      changed: '1\n2\n3\n',
      gone: '1\n2\n',
      script: 'x',
      turned: 'x',
      'dir/file': 'x',
      binary: 'a\0b',
    })
    const to = commit(stage, {
      changed: '1\n3\n4\n5\n',
      gone: null,
      script: { run: 'x' },
      turned: { link: 'same' },
      'dir/file': null,
      dir: 'now a file\n',
      'deep/er/new': 'n\n',
      binary: 'a\0c',
    })
    const found = await changesOf(userGit(await stage.repository()), stage.tree, to)
    assert.deepEqual(
      found.map(({ path, kind, mode, added, removed }) => [path, kind, mode, added, removed]),
      [
        ['binary', 'modified', '100644', undefined, undefined],
        ['changed', 'modified', '100644', 2, 1],
        ['deep/er/new', 'added', '100644', 1, 0],
        ['dir', 'added', '100644', 1, 0],
        ['dir/file', 'deleted', '100644', 0, 1],
        ['gone', 'deleted', '100644', 0, 2],
        ['script', 'modified', '100755', 0, 0],
        ['turned', 'type changed', '120000', 1, 1],
      ],
    )
    assert.deepEqual(await changesOf(userGit(await stage.repository()), to, to), [])
  })
})

describe('a diff', () => {
  test('a diff is text of all or some files, in our own colours', async () => {
    using stage = new ResultStage({ a: '1\n', 'b/c': '1\n' })
    const to = commit(stage, { a: '2\n', 'b/c': '2\n' })
    const o = userGit(await stage.repository())
    const all = await diffOf(o, stage.tree, to)
    assert.match(all, /^diff --git a\/a b\/a\n(.*\n)*-1\n\+2\ndiff --git a\/b\/c b\/b\/c\n/)
    assert.doesNotMatch(await diffOf(o, stage.tree, to, { paths: ['b'] }), /a\/a/)
    assert.equal(await diffOf(o, stage.tree, to, { paths: ['*'] }), '')
    assert.match(
      await diffOf(o, stage.tree, to, { stat: true }),
      /^ a +\| 2 \+-\n b\/c +\| 2 \+-\n 2 files changed/,
    )
    const colored = await diffOf(o, stage.tree, to, { color: true })
    assert.ok(colored.includes('\n\u001b[31m-1\u001b[m\n\u001b[32m+2\u001b[m\n'))
  })

  test('a diff contains nothing that a terminal interprets', async () => {
    const bad = '\u001b]0;title\u0007\u001b[2J\u009b31m\u202eevil\u2066\r\u0008\u007f'
    using stage = new ResultStage({ a: 'x\n' })
    const to = commit(stage, {
      a: `${bad}\n`,
      [`name${bad.replaceAll('\r', '')}`]: 'x\n',
      raw: Buffer.from([0x9b, 0x0a]).toString('latin1'),
    })
    for (const options of [{}, { stat: true }])
      assert.doesNotMatch(
        await diffOf(userGit(await stage.repository()), stage.tree, to, options),
        /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/u,
      )
  })

  for (const [text, seen] of [
    ['plain\n\ttext ü 日本', 'plain\n\ttext ü 日本'],
    ['\u001b[0m', '^[[0m'],
    ['a\r\n', 'a^M\n'],
    ['\u007f\u0000', '^?^@'],
    ['\u009b', '<U+009B>'],
    ['\u202e', '<U+202E>'],
    ['\u2028', '<U+2028>'],
    ['\u{e0041}', '<U+E0041>'],
  ])
    test(`a diff spells out ${JSON.stringify(text)}`, () => assert.equal(showHiddenInLines(text ?? ''), seen))
})
