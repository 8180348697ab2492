import assert from 'node:assert/strict'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { AgentPodError } from '../../core/error.ts'
import type { PathState } from './decide-path.ts'
import { HostDirectory, LARGEST_SYNCED_BYTES, statAt } from './host-directory.ts'
import { ABSENT_STAT, type ContentStream, type PathStat } from './side.ts'

const FILE: PathState = { kind: 'file', hash: 'as said', isExecutable: false }
const LINK: PathState = { kind: 'link', target: 'other' }
const ABSENT: PathState = { kind: 'absent' }

let root = ''
let host: HostDirectory
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-host-')))
  host = new HostDirectory({ directory: root, exclude: [], unsynced: [], env: process.env })
})
afterEach(() => rmSync(root, { recursive: true }))

const at = (path: string): string => join(root, path)
const seen = (path: string): PathStat => statAt(at(path)) ?? ABSENT_STAT
const text = (said: string) => async (): Promise<ContentStream> =>
  (async function* () {
    yield Buffer.from(said)
  })()

describe('writing synced files on this machine', () => {
  /** Somebody is there between the look and the change. */
  const STALE: [name: string, before: () => void, meanwhile: () => void, state: PathState][] = [
    ['that is edited', () => writeFileSync(at('f'), 'one'), () => writeFileSync(at('f'), 'mine'), FILE],
    [
      'that is edited, for a link',
      () => writeFileSync(at('f'), 'one'),
      () => writeFileSync(at('f'), 'mine'),
      LINK,
    ],
    [
      'that is edited, to be removed',
      () => writeFileSync(at('f'), 'one'),
      () => writeFileSync(at('f'), 'mine'),
      ABSENT,
    ],
    ['that is new', () => undefined, () => writeFileSync(at('f'), 'mine'), FILE],
    ['that is new, for a link', () => undefined, () => writeFileSync(at('f'), 'mine'), LINK],
    ['that becomes a directory', () => writeFileSync(at('f'), 'one'), () => replaceByDirectory(), FILE],
    [
      'that becomes a directory, to be removed',
      () => writeFileSync(at('f'), 'one'),
      () => replaceByDirectory(),
      ABSENT,
    ],
    ['that becomes a link', () => writeFileSync(at('f'), 'one'), () => replaceByLink(), FILE],
  ]
  const replaceByDirectory = (): void => {
    rmSync(at('f'))
    mkdirSync(at('f'))
    writeFileSync(at('f/mine'), 'mine')
  }
  const replaceByLink = (): void => {
    rmSync(at('f'))
    writeFileSync(at('victim'), 'mine')
    symlinkSync('victim', at('f'))
  }
  for (const [name, before, meanwhile, state] of STALE)
    test(`sync does not write here a path ${name} in the meantime`, async () => {
      before()
      const expected = seen('f')
      meanwhile()
      const here = readdirSync(root, { recursive: true })
      assert.deepEqual(await host.put('f', expected, state, text('theirs')), { status: 'changed' })
      assert.deepEqual(readdirSync(root, { recursive: true }), here, 'nothing is left over')
      const mine = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) =>
        lstatSync(at(path)).isFile(),
      )
      assert.ok(mine.length > 0)
      for (const path of mine) assert.equal(readFileSync(at(path), 'utf8'), 'mine')
    })

  test('a file that changes while new content arrives is not overwritten', async () => {
    writeFileSync(at('f'), 'one')
    const outcome = await host.put('f', seen('f'), FILE, async () =>
      (async function* () {
        yield Buffer.from('the')
        writeFileSync(at('f'), 'mine')
        yield Buffer.from('irs')
      })(),
    )
    assert.deepEqual(outcome, { status: 'changed' })
    assert.equal(readFileSync(at('f'), 'utf8'), 'mine')
    assert.deepEqual(readdirSync(root), ['f'])
  })

  test('writing a synced file returns the hash of the written bytes, not the announced one', async () => {
    const outcome = await host.put('f', ABSENT_STAT, FILE, text('theirs'))
    assert.equal(outcome.status, 'done')
    const { sha256 } = { sha256: (await host.hash(['f'])).get('f') }
    assert.deepEqual(outcome.status === 'done' && outcome.state, { ...FILE, hash: sha256 })
    const mark = seen('f')
    assert.equal(outcome.status === 'done' && outcome.stamp, mark.kind === 'file' && mark.stamp)
  })

  test('a synced file whose content breaks off leaves the old file unchanged', async () => {
    writeFileSync(at('f'), 'one')
    const broken = async (): Promise<ContentStream> =>
      (async function* () {
        yield Buffer.from('half')
        throw new Error('aborted')
      })()
    assert.deepEqual(await host.put('f', seen('f'), FILE, broken), { status: 'failed', why: 'aborted' })
    await assert.rejects(host.writeConflictCopy('f', broken))
    assert.deepEqual([readFileSync(at('f'), 'utf8'), readdirSync(root)], ['one', ['f']])
  })

  test('a synced file that disappeared is told apart from a sandbox that is unreachable', async () => {
    const gone = (code: 'not_found' | 'unavailable') => async (): Promise<ContentStream> => {
      throw new AgentPodError({ code, reason: 'guest', message: 'gone' })
    }
    assert.deepEqual(await host.put('f', ABSENT_STAT, FILE, gone('not_found')), { status: 'changed' })
    await assert.rejects(host.put('f', ABSENT_STAT, FILE, gone('unavailable')))
    assert.deepEqual(readdirSync(root), [])
  })

  test('a synced file that is larger than announced stops at the size limit', async () => {
    const piece = Buffer.alloc(16 * 1024 * 1024)
    let pieces = 0
    const endless = async (): Promise<ContentStream> =>
      (async function* () {
        for (;;) {
          pieces++
          yield piece
        }
      })()
    const outcome = await host.put('f', ABSENT_STAT, FILE, endless)
    assert.equal(outcome.status === 'failed' && outcome.why, 'it is larger than 256 MiB')
    assert.equal(pieces, LARGEST_SYNCED_BYTES / piece.length + 1)
    assert.deepEqual(readdirSync(root), [])
  })

  test('sync refuses to write below a file or a link, and saves a copy next to it', async () => {
    writeFileSync(at('file'), 'mine')
    mkdirSync(at('real'))
    symlinkSync('real', at('link'))
    for (const path of ['file/x', 'link/x', 'link/deep/x']) {
      const outcome = await host.put(path, ABSENT_STAT, FILE, text('theirs'))
      assert.equal(outcome.status === 'failed' && outcome.isInTheWay, true, path)
    }
    assert.equal(await host.writeConflictCopy('file/x', text('theirs')), 'file.agentpod-conflict-1')
    assert.equal(await host.writeConflictCopy('link/deep/x', text('theirs')), 'link.agentpod-conflict-1')
    assert.deepEqual(readdirSync(at('real')), [])
    // The control: below a directory both are made.
    assert.equal((await host.put('real/x', ABSENT_STAT, FILE, text('theirs'))).status, 'done')
    assert.equal(await host.writeConflictCopy('real/x', text('theirs')), 'real/x.agentpod-conflict-1')
  })

  test('a file with the longest possible name still gets a conflict copy', async () => {
    const name = 'n'.repeat(255)
    writeFileSync(at(name), 'mine')
    assert.equal(await host.writeConflictCopy(name, text('theirs')), 'agentpod-conflict-1')
    mkdirSync(at('d'))
    assert.equal(await host.writeConflictCopy(`d/${name}`, text('theirs')), 'd/agentpod-conflict-1')
  })
})

test('GT-15: nothing that comes out of a sandbox makes a directory a git repository', async () => {
  const put = async (path: string): Promise<string> =>
    (await host.put(path, ABSENT_STAT, FILE, text('x'))).status
  for (const path of ['HEAD', 'docs/HEAD', 'docs/head', 'docs/HE\u200cAD', 'docs/commondir', 'docs/COMMON~1'])
    assert.equal(await put(path), 'failed', path)
  assert.equal(await put('docs/objects/x'), 'done')
  writeFileSync(at('docs/HEAD'), 'ref: refs/heads/main')
  for (const path of ['docs/refs/x', 'docs/Refs/x', 'docs/objects/y'])
    assert.equal(await put(path), 'failed', path)
  assert.deepEqual(readdirSync(at('docs')).toSorted(), ['HEAD', 'objects'])
  assert.equal(await put('docs/config'), 'done', 'the control: it is no repository yet')
  mkdirSync(at('docs/refs'))
  for (const path of ['docs/hooks/post-commit', 'docs/config.worktree'])
    assert.equal(await put(path), 'failed', path)
})

test('a path behind a link counts as absent', async () => {
  mkdirSync(at('real'))
  writeFileSync(at('real/x'), 'x')
  symlinkSync('real', at('link'))
  const marks = await host.look(['real/x', 'link/x', 'link', 'real', 'nothing', 'real/x/y'])
  assert.deepEqual(
    [...marks].map(([path, { kind }]) => [path, kind]),
    [
      ['real/x', 'file'],
      ['link/x', 'absent'],
      ['link', 'link'],
      ['real', 'blocked'],
      ['nothing', 'absent'],
      ['real/x/y', 'absent'],
    ],
  )
  assert.deepEqual([...(await host.hash(['link/x', 'real/x'])).keys()], ['real/x'])
  assert.ok(existsSync(at('link/x')))
})
