/**
 * Changes in a working tree that somebody works in: all of them or none, and nothing of the user's is lost.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { type Files, ResultStage } from '../testing/result-stage.ts'
import { type Applied, type ApplyOptions, applyChanges } from './apply.ts'

const FROM: Files = {
  a: '1\n2\n3\n4\n5\n6\n7\n',
  'dir/b': 'b\n',
  'dir/c': 'c\n',
  gone: 'g\n',
  link: { link: 'a' },
  script: { run: '#!/bin/sh\n' },
}

/** Another tree in the user's repository, with the working tree as it was. */
function tree(stage: ResultStage, files: Files): string {
  stage.write(stage.root, files)
  stage.git('add', '-A')
  const id = stage.git('write-tree')
  stage.git('reset', '-q', '--hard')
  stage.git('clean', '-q', '-ffd')
  return id
}

async function apply(stage: ResultStage, to: string, options: Partial<ApplyOptions> = {}): Promise<Applied> {
  return applyChanges(await stage.repository(), { from: stage.tree, to, ...options })
}

/** Everything in the working tree: a path, and a mode and content or a link's target. */
function snapshot(root: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (path) => !/^\.git(?:\/|$)/.test(path),
  )) {
    const info = lstatSync(join(root, name))
    if (info.isSymbolicLink()) found[name] = `-> ${readlinkSync(join(root, name))}`
    else if (info.isFile())
      found[name] = `${(info.mode & 0o100) === 0 ? '' : 'x '}${readFileSync(join(root, name), 'utf8')}`
  }
  return found
}

function isConflict(error: unknown, ...paths: string[]): boolean {
  if (!isAgentPodError(error, 'conflict')) return false
  assert.deepEqual(error.details['paths'], paths)
  for (const path of paths) assert.ok(error.message.includes(JSON.stringify(path)), error.message)
  return true
}

const CHANGES: Files = {
  a: '1\n2\n3\n4\n5\n6\nseven\n',
  'new/deep/file': 'n\n',
  gone: null,
  link: { link: 'dir/b' },
  script: '#!/bin/sh\n',
  'dir/c': { run: 'c\n' },
}

describe('changes are applied', () => {
  test('changes are applied to a clean working tree, without a commit and without the index', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, CHANGES)
    const before = [stage.git('rev-parse', 'HEAD'), stage.git('write-tree')]
    const applied = await apply(stage, to)
    assert.deepEqual(applied.written, ['a', 'dir/c', 'link', 'new/deep/file', 'script'])
    assert.deepEqual(applied.removed, ['gone'])
    assert.deepEqual(snapshot(stage.root), {
      a: '1\n2\n3\n4\n5\n6\nseven\n',
      'dir/b': 'b\n',
      'dir/c': 'x c\n',
      link: '-> dir/b',
      'new/deep/file': 'n\n',
      script: '#!/bin/sh\n',
    })
    assert.deepEqual([stage.git('rev-parse', 'HEAD'), stage.git('write-tree')], before)
    stage.git('add', '-A')
    assert.equal(stage.git('write-tree'), to)
    assert.deepEqual(
      readdirSync(join(stage.root, '.git')).filter((name) => name.startsWith('agentpod')),
      [],
    )
  })

  test('applying the same changes twice changes nothing the second time', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, CHANGES)
    await apply(stage, to)
    const before = snapshot(stage.root)
    const again = await apply(stage, to)
    assert.deepEqual([again.written, again.removed, again.already.length], [[], [], 6])
    assert.deepEqual(snapshot(stage.root), before)
  })

  test('RUN-18 changes are applied beside the user’s changes, and merged where both changed one file', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, CHANGES)
    stage.write(stage.root, { a: 'ONE\n2\n3\n4\n5\n6\n7\n', mine: 'm', 'dir/b': 'mine\n' })
    assert.deepEqual((await apply(stage, to)).merged, ['a'])
    const now = snapshot(stage.root)
    assert.deepEqual([now['a'], now['mine'], now['dir/b']], ['ONE\n2\n3\n4\n5\n6\nseven\n', 'm', 'mine\n'])
  })

  test('changes are not applied to excluded paths', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, CHANGES)
    stage.write(stage.root, { gone: 'changed here' })
    await apply(stage, to, { without: ['gone', 'a'] })
    const now = snapshot(stage.root)
    assert.deepEqual(
      [now['gone'], now['a'], now['link']],
      ['changed here', '1\n2\n3\n4\n5\n6\n7\n', '-> dir/b'],
    )
  })

  test('changes turn directories into files and files into directories', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, { 'dir/b': null, 'dir/c': null, dir: 'a file', gone: null, 'gone/x/y': 'y' })
    await apply(stage, to)
    assert.equal(readFileSync(join(stage.root, 'dir'), 'utf8'), 'a file')
    assert.equal(readFileSync(join(stage.root, 'gone/x/y'), 'utf8'), 'y')
  })

  test('changes are applied over directories without files', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, { ...CHANGES, 'dir/b': null, 'dir/c': null, dir: 'a file' })
    for (const path of ['new/deep/file/x/y', 'dir/empty/z'])
      mkdirSync(join(stage.root, path), { recursive: true })
    await apply(stage, to)
    assert.deepEqual([snapshot(stage.root)['dir'], snapshot(stage.root)['new/deep/file']], ['a file', 'n\n'])
  })

  test('applied changes keep CRLF line endings and the user’s permissions', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, { a: '1\n2\n3\n', 'dir/b': 'bee\n' })
    writeFileSync(join(stage.root, 'a'), '1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n')
    chmodSync(join(stage.root, 'dir/b'), 0o600)
    await apply(stage, to)
    assert.equal(readFileSync(join(stage.root, 'a'), 'utf8'), '1\r\n2\r\n3\r\n')
    assert.equal(lstatSync(join(stage.root, 'dir/b')).mode & 0o777, 0o600)
  })

  test('changes are applied to a Git LFS file whose content is there', async () => {
    const content = 'the real one'
    const pointer = (text: string): string =>
      `version https://git-lfs.github.com/spec/v1\noid sha256:${createHash('sha256').update(text).digest('hex')}\nsize ${text.length}\n`
    using stage = new ResultStage({ big: pointer(content) })
    const to = tree(stage, { big: 'new content' })
    writeFileSync(join(stage.root, 'big'), content)
    await apply(stage, to)
    assert.equal(readFileSync(join(stage.root, 'big'), 'utf8'), 'new content')
  })

  test('a check reports the changes without applying them', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, CHANGES)
    const before = stage.fingerprint()
    assert.equal((await apply(stage, to, { isCheck: true })).written.length, 5)
    assert.equal(stage.fingerprint(), before)
  })

  test('changes are applied after a killed process left files behind', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, CHANGES)
    mkdirSync(join(stage.root, '.git/agentpod-apply-old'))
    await apply(stage, to)
    assert.ok(!existsSync(join(stage.root, '.git/agentpod-apply-old')))
  })
})

test('RUN-18 each file is the old one or the new one, wherever the process is killed', {
  timeout: 60_000,
}, async () => {
  const many = (text: string): Files =>
    Object.fromEntries(
      Array.from({ length: 300 }, (_, i) => [`d${i % 7}/f${i}`, `${text} ${i}\n`.repeat(500)]),
    )
  using stage = new ResultStage(many('old'))
  const to = tree(stage, many('new'))
  const program = `
    const { applyChanges } = await import(${JSON.stringify(new URL('./apply.ts', import.meta.url).href)})
    const { openRepository } = await import(${JSON.stringify(new URL('../plumbing/repository.ts', import.meta.url).href)})
    const o = JSON.parse(process.argv[1])
    const repo = await openRepository(o.root, o.env)
    process.stdout.write('ready')
    await applyChanges(repo, o)`
  const o = { root: stage.root, env: stage.env, from: stage.tree, to }
  const wanted = new Set(['old', 'new'].flatMap((text) => Object.values(many(text))))
  for (const afterMs of [20, 45, 70, 95]) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(o)], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    child.stdout.once('data', () => setTimeout(() => child.kill('SIGKILL'), afterMs))
    await once(child, 'close')
    for (const [path, content] of Object.entries(snapshot(stage.root))) assert.ok(wanted.has(content), path)
  }
  await apply(stage, to)
  assert.deepEqual(snapshot(stage.root), many('new'))
})

describe('apply conflicts', () => {
  const CASES: readonly (readonly [name: string, mine: (root: string) => void, path: string])[] = [
    [
      'a file was changed in the same lines',
      (root) => writeFileSync(join(root, 'a'), '1\n2\n3\n4\n5\n6\n77\n'),
      'a',
    ],
    ['a file was replaced by bytes', (root) => writeFileSync(join(root, 'a'), 'a\0b'), 'a'],
    ['a file was removed', (root) => rmSync(join(root, 'a')), 'a'],
    ['a file that is to go was changed', (root) => writeFileSync(join(root, 'gone'), 'changed'), 'gone'],
    [
      'there is another new file',
      (root) => {
        mkdirSync(join(root, 'new/deep'), { recursive: true })
        writeFileSync(join(root, 'new/deep/file'), 'mine')
      },
      'new/deep/file',
    ],
    [
      'a file is in the way of a directory',
      (root) => writeFileSync(join(root, 'new'), 'mine'),
      'new/deep/file',
    ],
    [
      'a directory is in the way of a file',
      (root) => {
        mkdirSync(join(root, 'new/deep/file'), { recursive: true })
        writeFileSync(join(root, 'new/deep/file/mine'), 'm')
      },
      'new/deep/file',
    ],
    [
      'a link was turned',
      (root) => {
        rmSync(join(root, 'link'))
        symlinkSync('elsewhere', join(root, 'link'))
      },
      'link',
    ],
    [
      'a file became a link',
      (root) => {
        rmSync(join(root, 'a'))
        symlinkSync('dir/b', join(root, 'a'))
      },
      'a',
    ],
    [
      'a link became a file',
      (root) => {
        rmSync(join(root, 'link'))
        writeFileSync(join(root, 'link'), 'mine')
      },
      'link',
    ],
    [
      'a link is in the way of a directory',
      (root) => {
        mkdirSync(join(root, '../outside'))
        symlinkSync('../outside', join(root, 'new'))
      },
      'new/deep/file',
    ],
    [
      'a directory of the project became a link',
      (root) => {
        rmSync(join(root, 'dir'), { recursive: true })
        mkdirSync(join(root, '../outside'))
        writeFileSync(join(root, '../outside/c'), 'c\n')
        symlinkSync('../outside', join(root, 'dir'))
      },
      'dir/c',
    ],
  ]
  for (const [name, mine, path] of CASES)
    test(`RUN-18 apply changes nothing where ${name}`, async () => {
      using stage = new ResultStage(FROM)
      const to = tree(stage, CHANGES)
      mine(stage.root)
      const before = snapshot(stage.directory)
      await assert.rejects(apply(stage, to), (error) => isConflict(error, path))
      assert.deepEqual(snapshot(stage.directory), before)
    })

  test('RUN-18 apply changes nothing where a directory that is to become a file holds a file of the user', async () => {
    using stage = new ResultStage(FROM)
    const to = tree(stage, { 'dir/b': null, 'dir/c': null, dir: 'a file' })
    stage.write(stage.root, { 'dir/mine': 'm' })
    await assert.rejects(apply(stage, to), (error) => isConflict(error, 'dir'))
    assert.equal(snapshot(stage.root)['dir/mine'], 'm')
  })
})
