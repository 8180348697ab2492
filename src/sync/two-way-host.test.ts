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
import { AgentPodError } from '../core/error.ts'
import type { State } from './two-way-decide.ts'
import { Host, LARGEST_BYTES, markAt } from './two-way-host.ts'
import { type Content, type Mark, NOTHING } from './two-way-side.ts'

const FILE: State = { kind: 'file', hash: 'as said', isExecutable: false }
const LINK: State = { kind: 'link', target: 'other' }
const ABSENT: State = { kind: 'absent' }

let root = ''
let host: Host
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-host-')))
  host = new Host({ directory: root, exclude: [], aside: [], env: process.env })
})
afterEach(() => rmSync(root, { recursive: true }))

const at = (path: string): string => join(root, path)
const seen = (path: string): Mark => markAt(at(path)) ?? NOTHING
const text = (said: string) => async (): Promise<Content> =>
  (async function* () {
    yield Buffer.from(said)
  })()

describe('a change on this machine', () => {
  /** Somebody is there between the look and the change. */
  const STALE: [name: string, before: () => void, meanwhile: () => void, state: State][] = [
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
    test(`to a path ${name} in the meantime is not made`, async () => {
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

  test('while its content is on the way is found before it is written over', async () => {
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

  test('answers with what was really written, which may not be what was said', async () => {
    const outcome = await host.put('f', NOTHING, FILE, text('theirs'))
    assert.equal(outcome.status, 'done')
    const { sha256 } = { sha256: (await host.hash(['f'])).get('f') }
    assert.deepEqual(outcome.status === 'done' && outcome.state, { ...FILE, hash: sha256 })
    const mark = seen('f')
    assert.equal(outcome.status === 'done' && outcome.stamp, mark.kind === 'file' && mark.stamp)
  })

  test('whose content breaks off leaves everything as it was', async () => {
    writeFileSync(at('f'), 'one')
    const broken = async (): Promise<Content> =>
      (async function* () {
        yield Buffer.from('half')
        throw new Error('aborted')
      })()
    assert.deepEqual(await host.put('f', seen('f'), FILE, broken), { status: 'failed', why: 'aborted' })
    await assert.rejects(host.putBeside('f', broken))
    assert.deepEqual([readFileSync(at('f'), 'utf8'), readdirSync(root)], ['one', ['f']])
  })

  test('whose content is gone, or a sandbox that is gone, are told apart', async () => {
    const gone = (code: 'not_found' | 'unavailable') => async (): Promise<Content> => {
      throw new AgentPodError({ code, reason: 'guest', message: 'gone' })
    }
    assert.deepEqual(await host.put('f', NOTHING, FILE, gone('not_found')), { status: 'changed' })
    await assert.rejects(host.put('f', NOTHING, FILE, gone('unavailable')))
    assert.deepEqual(readdirSync(root), [])
  })

  test('that is larger than was said ends at the bound', async () => {
    const piece = Buffer.alloc(16 * 1024 * 1024)
    let pieces = 0
    const endless = async (): Promise<Content> =>
      (async function* () {
        for (;;) {
          pieces++
          yield piece
        }
      })()
    const outcome = await host.put('f', NOTHING, FILE, endless)
    assert.equal(outcome.status === 'failed' && outcome.why, 'it is larger than 256 MiB')
    assert.equal(pieces, LARGEST_BYTES / piece.length + 1)
    assert.deepEqual(readdirSync(root), [])
  })

  test('below a file or a link is refused, and the copy of it comes beside that', async () => {
    writeFileSync(at('file'), 'mine')
    mkdirSync(at('real'))
    symlinkSync('real', at('link'))
    for (const path of ['file/x', 'link/x', 'link/deep/x']) {
      const outcome = await host.put(path, NOTHING, FILE, text('theirs'))
      assert.equal(outcome.status === 'failed' && outcome.isInTheWay, true, path)
    }
    assert.equal(await host.putBeside('file/x', text('theirs')), 'file.agentpod-conflict-1')
    assert.equal(await host.putBeside('link/deep/x', text('theirs')), 'link.agentpod-conflict-1')
    assert.deepEqual(readdirSync(at('real')), [])
    // The control: below a directory both are made.
    assert.equal((await host.put('real/x', NOTHING, FILE, text('theirs'))).status, 'done')
    assert.equal(await host.putBeside('real/x', text('theirs')), 'real/x.agentpod-conflict-1')
  })

  test('of the longest name has a copy all the same', async () => {
    const name = 'n'.repeat(255)
    writeFileSync(at(name), 'mine')
    assert.equal(await host.putBeside(name, text('theirs')), 'agentpod-conflict-1')
    mkdirSync(at('d'))
    assert.equal(await host.putBeside(`d/${name}`, text('theirs')), 'd/agentpod-conflict-1')
  })
})

test('GT-15: nothing that comes out of a sandbox makes a directory a git repository', async () => {
  const put = async (path: string): Promise<string> => (await host.put(path, NOTHING, FILE, text('x'))).status
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

test('what lies behind a link is not there', async () => {
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
