/** What is known of a result after it was checked. What is refused is in test/attack/git.test.ts. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { ResultStage } from '../testing/result-stage.ts'
import { receiveResult } from './receive.ts'

let stage: ResultStage
beforeEach(() => {
  stage = new ResultStage()
})
afterEach(() => stage[Symbol.dispose]())

describe('receiving a result', () => {
  test('a received result is listed per file, and the user’s repository is unchanged', async () => {
    stage.work({ 'a.txt': 'one\nthree\n', 'new.bin': 'a\0b', 'src/b.js': { link: '../a.txt' } })
    const before = stage.fingerprint()
    const { changes, gate, notes, tree } = await stage.receiveResult()
    assert.deepEqual(changes, [
      { path: 'a.txt', kind: 'modified', mode: '100644', added: 0, removed: 1 },
      { path: 'new.bin', kind: 'added', mode: '100644', added: undefined, removed: undefined },
      { path: 'src/b.js', kind: 'type changed', mode: '120000', added: 1, removed: 1 },
    ])
    assert.deepEqual([gate, notes], [[], []])
    assert.equal(stage.fingerprint(), before)
    assert.throws(() => stage.git('cat-file', '-e', tree))
  })

  test('a received result may be empty', async () => {
    const { changes, gate, tree } = await stage.receiveResult()
    assert.deepEqual([changes, gate, tree], [[], [], stage.tree])
  })

  test('a received result may remove files', async () => {
    stage.work({ src: null })
    assert.deepEqual(
      (await stage.receiveResult()).changes.map(({ path, kind }) => `${kind} ${path}`),
      ['deleted src/b.js'],
    )
  })

  test('a received result may be a file', async () => {
    stage.work({ new: 'x' })
    const { header, pack } = stage.result()
    const file = join(stage.directory, 'result.pack')
    writeFileSync(file, pack)
    const o = {
      tree: stage.tree,
      commit: stage.commit,
      expected: header.tree,
      pack: file,
      scratch: stage.scratch(),
    }
    assert.equal((await receiveResult(await stage.repository(), o)).changes.length, 1)
    await assert.rejects(
      receiveResult(await stage.repository(), { ...o, scratch: stage.scratch(), pack: `${file}.none` }),
    )
  })

  test('unpacking a result stops after its time limit', async () => {
    const never = new Readable({ read: () => undefined })
    const o = {
      tree: stage.tree,
      commit: stage.commit,
      expected: 'a'.repeat(40),
      pack: never,
      scratch: stage.scratch(),
      timeoutMs: 300,
    }
    await assert.rejects(receiveResult(await stage.repository(), o), (error) =>
      isAgentPodError(error, 'data_loss'),
    )
    never.destroy()
  })

  test('names that are not UTF-8 are left out of a result, with a note', async () => {
    const name = Buffer.concat([Buffer.from(`${stage.workspace}/caf`), Buffer.from([0xe9])])
    writeFileSync(name, 'x')
    stage.work({ plain: 'p' })
    const { changes, notes, tree, quarantine } = await stage.receiveResult()
    assert.deepEqual(
      changes.map(({ path }) => path),
      ['plain'],
    )
    assert.deepEqual(notes, ['caf\ufffd was left out: its name is not UTF-8'])
    const names = stage.gitWith(
      { ...stage.env, ...quarantine.variables },
      'ls-tree',
      '-r',
      '--name-only',
      tree,
    )
    assert.equal(names, 'a.txt\nplain\nsrc/b.js')
  })

  test('names that differ only in case get a note', async () => {
    stage.work({ 'A.txt': 'x', 'SRC/c.js': 'y' })
    const { notes } = await stage.receiveResult()
    assert.deepEqual(notes, [
      'a.txt and A.txt are the same name on a case-insensitive file system',
      'src and SRC are the same name on a case-insensitive file system',
    ])
  })

  test('the gate knows the user’s hooks directory', async () => {
    stage.git('config', 'core.hooksPath', 'build/hooks')
    stage.work({ 'build/hooks/pre-commit': { run: 'x' }, 'build/other': 'y' })
    assert.deepEqual(
      (await stage.receiveResult()).gate.map(({ path, kind }) => `${kind} ${path}`),
      ['hook build/hooks/pre-commit'],
    )
  })

  test('the gate follows hooks through unchanged scripts', async () => {
    using other = new ResultStage({
      '.husky/pre-commit': 'sh scripts/all.sh\n',
      'scripts/all.sh': '. ./scripts/one.sh\n',
      'scripts/one.sh': './scripts/two.sh\n',
      'scripts/two.sh': '1',
      'scripts/free.sh': '1',
    })
    other.work({ 'scripts/two.sh': '2', 'scripts/free.sh': '2' })
    assert.deepEqual((await other.receiveResult()).gate, [
      { path: 'scripts/two.sh', kind: 'script', why: 'is named by scripts/one.sh' },
    ])
  })

  test('files that decide are gated however much else there is to read', async () => {
    // Larger than what is read in all, if these were read first.
    for (let i = 0; i < 160; i++) stage.work({ [`aaa/${i}.js`]: 'x'.repeat(450_000) })
    mkdirSync(join(stage.workspace, 'zzz'))
    stage.work({ 'zzz/package.json': '{"scripts":{"postinstall":"x"}}', zlink: { link: '/etc' } })
    assert.deepEqual(
      (await stage.receiveResult()).gate.map(({ path }) => path),
      ['zlink', 'zzz/package.json'],
    )
  })
})
