// Every name and every link here could come out of a sandbox.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { ignoredPaths } from './git-ignored.ts'
import { isIgnoreFile, isSyncFile, linkRefusal, nameRefusal } from './path-rules.ts'

const REFUSED = [
  '',
  '.',
  '..',
  '/',
  '/etc/passwd',
  '../out',
  'a/../../out',
  'a/..',
  'a/../b',
  './a',
  'a//b',
  'a/',
  'a\0b',
  '.git',
  '.git/hooks/pre-commit',
  'a/.git/config',
  'a/.git',
  '.GIT/config',
  '.Git',
  '.gIt/hooks/post-checkout',
  '.git./config',
  '.git /config',
  '.git. . /config',
  '.git::$INDEX_ALLOCATION/config',
  '.git\\hooks/x',
  'git~1/config',
  'GIT~2',
  '.g\u200cit/config',
  '\ufeff.git/config',
  'x'.repeat(256),
  `a/${'ü'.repeat(128)}`,
  `${'a/'.repeat(2100)}b`,
  'a.agentpod-conflict-1',
  'deep/a.agentpod-conflict-23',
  'agentpod-conflict-1',
  'a/.agentpod-partial-abc',
]

const ALLOWED = [
  'a',
  'a/b/c',
  '.gitignore',
  '.gitattributes',
  '.github/workflows/ci.yml',
  '.gitx',
  'git',
  'a.git',
  'a.git/x',
  '..a',
  'a..b',
  '...',
  '-rf',
  '--help',
  'a b',
  'a\nb',
  '\u001b[31mred',
  'ümlaut/🦀',
  '$(touch x)',
  'x'.repeat(255),
  'agentpod-conflict',
  'a.agentpod-conflict-',
  'agentpod-conflict-1/a',
]

describe('names from a sandbox', () => {
  for (const name of REFUSED)
    test(`${JSON.stringify(name.slice(0, 60))} is refused as a name from a sandbox`, () =>
      assert.equal(typeof nameRefusal(name), 'string'))
  for (const name of ALLOWED)
    test(`${JSON.stringify(name.slice(0, 60))} may be written as a name from a sandbox`, () =>
      assert.equal(nameRefusal(name), undefined))

  test('.gitignore is recognised in any case and any directory', () => {
    for (const name of ['.gitignore', 'a/b/.gitignore', '.GitIgnore']) assert.ok(isIgnoreFile(name), name)
    for (const name of ['gitignore', '.gitignore/x', 'a.gitignore']) assert.ok(!isIgnoreFile(name), name)
  })

  test('AgentPod’s own files are not synced in either direction', () => {
    assert.ok(isSyncFile('a/b.agentpod-conflict-12') && isSyncFile('.agentpod-partial-x'))
    assert.ok(!isSyncFile('agentpod-conflict-1/b') && !isSyncFile('b.agentpod-conflict-x'))
  })
})

describe('links from a sandbox', () => {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-links-')))
  const root = join(top, 'root')
  after(() => rmSync(top, { recursive: true }))
  mkdirSync(join(root, 'deep', 'er'), { recursive: true })
  mkdirSync(join(top, 'root-beside'))
  writeFileSync(join(root, 'plain'), '')
  writeFileSync(join(top, 'victim'), '')
  // The person's own links may lead anywhere; a sandbox's may not lead through them.
  symlinkSync(top, join(root, 'mine'))
  symlinkSync('/nowhere/at/all', join(root, 'broken'))
  symlinkSync('deep', join(root, 'here'))

  const MADE: [path: string, target: string][] = [
    ['a', 'plain'],
    ['a', './plain'],
    ['a', 'deep/er'],
    ['a', 'not/there/yet'],
    ['deep/a', '../plain'],
    ['deep/er/a', '../../plain'],
    ['deep/a', '..'],
    ['a', 'here/er'],
  ]
  const NOT_MADE: [path: string, target: string][] = [
    ['a', ''],
    ['a', '/'],
    ['a', '/etc/passwd'],
    ['a', join(top, 'victim')],
    ['a', '..'],
    ['a', '../victim'],
    ['a', '../root-beside'],
    ['deep/a', '../../victim'],
    ['a', 'deep/../../victim'],
    ['a', 'here/..'],
    ['a', 'mine'],
    ['a', 'mine/victim'],
    ['a', 'mine/not-there'],
    ['a', 'broken'],
    ['a', 'broken/x'],
    ['a', '.git/hooks/pre-commit'],
    ['deep/a', '../.GIT'],
    ['a', 'plain\0x'],
  ]
  for (const [path, target] of MADE)
    test(`${path} -> ${target} may be created as a link`, async () =>
      assert.equal(await linkRefusal(root, path, target), undefined))
  for (const [path, target] of NOT_MADE)
    test(`${path} -> ${JSON.stringify(target.replace(top, '<top>'))} is refused as a link`, async () =>
      assert.equal(typeof (await linkRefusal(root, path, target)), 'string'))
})

describe('paths that git ignores', () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-ignored-')))
  after(() => rmSync(root, { recursive: true }))
  const git = (cwd: string, ...args: string[]): void => void execFileSync('git', args, { cwd })
  git(root, 'init', '-q')
  writeFileSync(join(root, '.gitignore'), 'target/\n*.log\n!keep.log\n.env\n')
  writeFileSync(join(root, 'tracked.log'), '')
  git(root, 'add', '-f', '.gitignore', 'tracked.log')
  const nested = join(root, 'nested')
  mkdirSync(nested)
  git(nested, 'init', '-q')
  writeFileSync(join(nested, '.gitignore'), 'only-here\n')
  mkdirSync(join(root, 'plain'))
  symlinkSync('plain', join(root, 'link'))

  test('git-ignored paths are found whether they exist or not, whatever their names', async () => {
    const paths = [
      'a',
      'target/deep/x',
      'x.log',
      'keep.log',
      '.env',
      'deep/.env',
      ':(top)x.log',
      '--stdin',
      'we\nird.log',
      'tracked.log',
    ]
    assert.deepEqual(
      [...(await ignoredPaths(root, paths, process.env))].sort(),
      ['.env', ':(top)x.log', 'deep/.env', 'target/deep/x', 'we\nird.log', 'x.log'].sort(),
    )
  })

  test('a nested repository has its own ignore rules', async () => {
    const paths = ['only-here', 'nested/only-here', 'nested/x.log', 'nested/other']
    assert.deepEqual([...(await ignoredPaths(root, paths, process.env))], ['nested/only-here'])
  })

  test('a path that git rejects does not make other paths ignored', async () => {
    const paths = ['a', 'b', 'link/x', 'c', 'd.log']
    assert.deepEqual([...(await ignoredPaths(root, paths, process.env))].sort(), ['d.log', 'link/x'])
  })

  test('outside a repository no path is ignored', async () => {
    const plain = mkdtempSync(join(tmpdir(), 'agentpod-plain-'))
    assert.deepEqual([...(await ignoredPaths(plain, ['a', 'target/x'], process.env))], [])
    rmSync(plain, { recursive: true })
  })
})
