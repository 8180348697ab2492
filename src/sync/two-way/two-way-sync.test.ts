// Two sides and what people and programs do on them. Whatever happens, what somebody wrote last is on a side
// or beside it.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { SeededRandom } from '../../testing/seeded-random.ts'
import type { PathStat } from './side.ts'
import { type SideEditor, type TwoSides, twoDirectories, twoMemorySides } from './testing/two-sides.ts'
import { type PathsToRecheck, TwoWaySync } from './two-way-sync.ts'

/** What a stage is like at the start: both sides agree on some files. */
const AGREED = { a: 'one', 'dir/b': 'two', 'dir/deep/c': 'three', tool: '#!/bin/sh' }

class Play {
  readonly stage: TwoSides
  readonly sync: TwoWaySync
  readonly said: string[] = []

  private constructor(stage: TwoSides, sent: ReadonlyMap<string, PathStat>) {
    this.stage = stage
    this.sync = new TwoWaySync({
      host: stage.host,
      inside: stage.inside,
      sent,
      say: (line) => void this.said.push(line),
    })
  }

  static async begin(stage: TwoSides, files: Readonly<Record<string, string>> = AGREED): Promise<Play> {
    for (const hands of [stage.here, stage.there])
      for (const [path, text] of Object.entries(files)) hands.write(path, text, path === 'tool')
    const play = new Play(stage, await stage.host.scan())
    await play.settle()
    return play
  }

  /** Until nothing is left to look at. */
  async settle(): Promise<void> {
    for (let round = 0; round < 10; round++) {
      const again = await this.sync.settle('all', 'all')
      if (isNothing(again)) return
    }
    assert.fail('it never comes to rest')
  }

  async after(act: (here: SideEditor, there: SideEditor) => void): Promise<{ here: Shown; there: Shown }> {
    act(this.stage.here, this.stage.there)
    await this.settle()
    const shown = { here: contents(this.stage.here), there: contents(this.stage.there) }
    const before = this.said.length
    await this.settle()
    assert.deepEqual(contents(this.stage.here), shown.here, 'a second look changes nothing')
    assert.deepEqual(contents(this.stage.there), shown.there, 'a second look changes nothing')
    assert.equal(this.said.length, before, 'what was said is not said again')
    return shown
  }
}

type Shown = Readonly<Record<string, string | undefined>>

function contents(hands: SideEditor): Shown {
  return Object.fromEntries(hands.list().map((path) => [path, hands.show(path)]))
}

function isNothing({ host, inside }: PathsToRecheck): boolean {
  return host.length === 0 && inside.length === 0
}

interface Scene {
  readonly name: string
  act(here: SideEditor, there: SideEditor): void
  /** What differs from the start, on both sides; undefined for what is gone. */
  readonly both?: Shown
  /** What is on this machine alone. */
  readonly here?: Shown
  readonly said?: RegExp
}

const SCENES: readonly Scene[] = [
  { name: 'an edit here goes in', act: (here) => here.write('a', 'new'), both: { a: 'new' } },
  { name: 'an edit inside comes out', act: (_, there) => there.write('a', 'new'), both: { a: 'new' } },
  {
    name: 'new files go both ways at once',
    act(here, there) {
      here.write('new/x/y', 'from here')
      there.write('dir/z', 'from there')
    },
    both: { 'new/x/y': 'from here', 'dir/z': 'from there' },
  },
  { name: 'a removal here goes in', act: (here) => here.remove('a'), both: { a: undefined } },
  { name: 'a removal inside comes out', act: (_, there) => there.remove('a'), both: { a: undefined } },
  {
    name: 'a directory removed inside is removed here',
    act: (_, there) => there.remove('dir'),
    both: { 'dir/b': undefined, 'dir/deep/c': undefined },
  },
  {
    name: 'a directory removed here is removed inside',
    act: (here) => here.remove('dir'),
    both: { 'dir/b': undefined, 'dir/deep/c': undefined },
  },
  {
    name: 'the same edit on both sides is agreed on',
    act(here, there) {
      here.write('a', 'same')
      there.write('a', 'same')
    },
    both: { a: 'same' },
  },
  {
    name: 'different edits are a conflict that keeps both',
    act(here, there) {
      here.write('a', 'mine')
      there.write('a', 'theirs')
    },
    both: { a: 'mine' },
    here: { 'a.agentpod-conflict-1': 'theirs' },
    said: /^conflict: a was changed on both sides; yours is kept, the sandbox’s version is in a\.agentpod-conflict-1$/,
  },
  {
    name: 'different new files are a conflict that keeps both',
    act(here, there) {
      here.write('dir/new', 'mine')
      there.write('dir/new', 'theirs')
    },
    both: { 'dir/new': 'mine' },
    here: { 'dir/new.agentpod-conflict-1': 'theirs' },
    said: /dir\/new\.agentpod-conflict-1/,
  },
  {
    name: 'a conflict writes over no copy of an earlier one',
    act(here, there) {
      here.write('a.agentpod-conflict-1', 'precious')
      here.write('a', 'mine')
      there.write('a', 'theirs')
    },
    both: { a: 'mine' },
    here: { 'a.agentpod-conflict-1': 'precious', 'a.agentpod-conflict-2': 'theirs' },
    said: /conflict-2/,
  },
  {
    name: 'an edit here beats a removal inside',
    act(here, there) {
      here.write('a', 'edited')
      there.remove('a')
    },
    both: { a: 'edited' },
  },
  {
    name: 'an edit inside beats a removal here',
    act(here, there) {
      here.remove('a')
      there.write('a', 'edited')
    },
    both: { a: 'edited' },
  },
  {
    name: 'an edit inside beats the removal of its directory here',
    act(here, there) {
      here.remove('dir')
      there.write('dir/deep/c', 'edited')
    },
    both: { 'dir/b': undefined, 'dir/deep/c': 'edited' },
  },
  { name: 'a new link goes in', act: (here) => here.link('l', 'dir/b'), both: { l: '-> dir/b' } },
  {
    name: 'a new link comes out',
    act: (_, there) => there.link('dir/l', '../a'),
    both: { 'dir/l': '-> ../a' },
  },
  {
    name: 'a file becomes a link inside',
    act(_, there) {
      there.remove('a')
      there.link('a', 'dir/b')
    },
    both: { a: '-> dir/b' },
  },
  {
    name: 'a file becomes a link here',
    act(here) {
      here.remove('a')
      here.link('a', 'dir/b')
    },
    both: { a: '-> dir/b' },
  },
  {
    name: 'a link and a file in one place are a conflict that keeps both',
    act(here, there) {
      here.write('l', 'mine')
      there.link('l', 'dir/b')
    },
    both: { l: 'mine' },
    here: { 'l.agentpod-conflict-1': 'dir/b' },
    said: /conflict: l /,
  },
  {
    name: 'a file becomes a directory inside',
    act(_, there) {
      there.remove('a')
      there.write('a/in/it', 'new')
    },
    both: { a: undefined, 'a/in/it': 'new' },
  },
  {
    name: 'a file becomes a directory here',
    act(here) {
      here.remove('a')
      here.write('a/in/it', 'new')
    },
    both: { a: undefined, 'a/in/it': 'new' },
  },
  {
    name: 'a directory becomes a file inside',
    act(_, there) {
      there.remove('dir')
      there.write('dir', 'new')
    },
    both: { dir: 'new', 'dir/b': undefined, 'dir/deep/c': undefined },
  },
  {
    name: 'a directory becomes a file here',
    act(here) {
      here.remove('dir')
      here.write('dir', 'new')
    },
    both: { dir: 'new', 'dir/b': undefined, 'dir/deep/c': undefined },
  },
  {
    name: 'a directory here and an edited file inside keep both',
    act(here, there) {
      here.remove('a')
      here.write('a/in', 'mine')
      there.write('a', 'theirs')
    },
    both: { a: undefined, 'a/in': 'mine' },
    here: { 'a.agentpod-conflict-1': 'theirs' },
    said: /conflict: a /,
  },
  {
    name: 'what is ignored inside stays there, and what is ignored here stays here',
    act(here, there) {
      here.write('ignored/key', 'secret')
      there.write('ignored/built', 'large')
    },
    here: { 'ignored/key': 'secret' },
  },
]

for (const [kind, make] of [
  ['in memory', twoMemorySides],
  ['of directories', ignoringStage],
] as const) {
  describe(`between two sides ${kind}`, () => {
    for (const { name, act, both = {}, here = {}, said } of SCENES) {
      test(`${name} (${kind})`, async () => {
        await using stage = make()
        const play = await Play.begin(stage)
        const shown = await play.after(act)
        const agreed = defined({ ...AGREED, ...both })
        const rules = kind === 'in memory' ? {} : { '.gitignore': 'ignored\n' }
        assert.deepEqual(shown.here, { ...rules, ...agreed, ...here })
        const there = defined({ ...shown.there, 'ignored/built': undefined })
        assert.deepEqual(there, { ...rules, ...agreed })
        assert.equal(play.said.length, said ? 1 : 0, play.said.join('\n'))
        if (said) assert.match(play.said[0] ?? '', said)
      })
    }
  })
}

function ignoringStage(): ReturnType<typeof twoDirectories> {
  const stage = twoDirectories(process.env)
  execFileSync('git', ['init', '-q'], { cwd: stage.hostRoot })
  for (const hands of [stage.here, stage.there]) hands.write('.gitignore', 'ignored\n')
  return stage
}

function defined(shown: Shown): Shown {
  return Object.fromEntries(Object.entries(shown).filter(([, text]) => text !== undefined))
}

describe('a path that is a file here and a directory in the sandbox', () => {
  test('a file here that is a directory in the sandbox is kept on both sides, and its contents become copies', async () => {
    for (const make of [twoMemorySides, ignoringStage]) {
      await using stage = make()
      const play = await Play.begin(stage)
      stage.here.write('a', 'mine')
      stage.there.remove('a')
      stage.there.write('a/in', 'theirs')
      await play.settle()
      await play.settle()
      assert.equal(stage.here.show('a'), 'mine')
      assert.equal(stage.there.show('a/in'), 'theirs')
      assert.equal(stage.here.show('a.agentpod-conflict-1'), 'theirs')
      assert.equal(play.said.length, 2, play.said.join('\n'))
    }
  })
})

describe('concurrent writes', () => {
  test('ENV-13 a concurrent write here is kept, and the sandbox’s version is saved next to it', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.there.write('a', 'theirs')
    stage.host.before = (path) => {
      stage.host.before = () => undefined
      stage.here.write(path, 'mine')
    }
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.there.show('a')], ['mine', 'mine'])
    assert.equal(stage.here.show('a.agentpod-conflict-1'), 'theirs')
  })

  test('a concurrent write in the sandbox is not overwritten', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.here.write('a', 'mine')
    stage.inside.before = (path) => {
      stage.inside.before = () => undefined
      stage.there.write(path, 'theirs')
    }
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.there.show('a')], ['mine', 'mine'])
    assert.equal(stage.here.show('a.agentpod-conflict-1'), 'theirs')
  })

  test('a concurrent write in a real directory of the sandbox is not overwritten', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    stage.here.write('a', 'mine')
    stage.access.onUnpack = () => {
      stage.access.onUnpack = () => undefined
      stage.there.write('a', 'theirs, a moment ago')
    }
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.there.show('a')], ['mine', 'mine'])
    assert.equal(stage.here.show('a.agentpod-conflict-1'), 'theirs, a moment ago')
  })

  test('a concurrent removal of a path that was to be removed is no failure', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.there.remove('a')
    stage.host.before = () => {
      stage.host.before = () => undefined
      stage.here.remove('a')
    }
    await play.settle()
    assert.equal(stage.here.show('a'), undefined)
    assert.deepEqual(play.said, [])
  })
})

describe('notices of single paths', () => {
  test('a notice of a single path is handled without reading other paths', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    const { scans } = stage.host
    stage.here.write('a', 'new')
    stage.there.write('dir/new', 'new')
    assert.ok(isNothing(await play.sync.settle(['a'], ['dir/new'])))
    assert.deepEqual([stage.there.show('a'), stage.here.show('dir/new')], ['new', 'new'])
    assert.equal(stage.host.scans, scans)
  })

  test('a notice of our own write changes nothing', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.here.write('a', 'new')
    await play.sync.settle(['a'], [])
    const stamp = [stage.here.show('a'), await stage.inside.look(['a'])]
    assert.ok(isNothing(await play.sync.settle(['a'], ['a'])))
    assert.deepEqual([stage.here.show('a'), await stage.inside.look(['a'])], stamp)
  })

  test('a notice of a directory asks for a scan of its side', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.there.write('fresh/x', 'new')
    assert.deepEqual(await play.sync.settle([], ['fresh']), { host: [], inside: 'all' })
    stage.here.remove('dir')
    const { host } = await play.sync.settle(['dir'], [])
    assert.equal(host, 'all')
  })

  test('a false notice does no harm', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    const names = [
      '',
      '.',
      '..',
      '../x',
      '/etc/passwd',
      '.git/config',
      'nothing',
      'a\ufffdb',
      'dir/',
      'a/b/c',
    ]
    await play.sync.settle(names, names)
    assert.deepEqual(contents(stage.here), AGREED)
    assert.deepEqual(contents(stage.there), AGREED)
  })

  test('a noticed edit that keeps size and time is found by reading the file', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    const file = join(stage.insideRoot, 'a')
    const { atime, mtime } = lstatSync(file)
    writeFileSync(file, 'two')
    utimesSync(file, atime, mtime)
    await play.sync.settle([], ['a'])
    assert.equal(stage.here.show('a'), 'two')
  })
})

describe('files sent at the start', () => {
  test('files sent at the start are not read while they are unchanged', async () => {
    await using stage = twoMemorySides()
    const read: string[] = []
    for (const side of [stage.host, stage.inside]) {
      const hash = side.hash.bind(side)
      side.hash = (paths) => {
        read.push(...paths)
        return hash(paths)
      }
    }
    await Play.begin(stage)
    assert.deepEqual(read, [])
  })

  test('a sent file that changed in the sandbox before the first round is copied here', async () => {
    await using stage = twoDirectories(process.env)
    stage.here.write('a', 'one')
    stage.there.write('a', 'changed by a service')
    const said: string[] = []
    const sync = new TwoWaySync({
      host: stage.host,
      inside: stage.inside,
      sent: await stage.host.scan(),
      say: (line) => said.push(line),
    })
    await sync.settle('all', 'all')
    assert.equal(stage.here.show('a'), 'changed by a service')
    assert.deepEqual(said, [])
  })

  test('a sent file that is only touched is not written', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    const before = lstatSync(join(stage.hostRoot, 'a')).ino
    utimesSync(join(stage.insideRoot, 'a'), 1, 1)
    utimesSync(join(stage.hostRoot, 'dir/b'), 1, 1)
    const inside = lstatSync(join(stage.insideRoot, 'dir/b')).ino
    await play.settle()
    assert.equal(lstatSync(join(stage.hostRoot, 'a')).ino, before)
    assert.equal(lstatSync(join(stage.insideRoot, 'dir/b')).ino, inside)
  })
})

describe('a sandbox', () => {
  test('a sandbox cannot get ignored files by changing ignore rules', async () => {
    await using stage = ignoringStage()
    stage.here.write('ignored', 'the key')
    const play = await Play.begin(stage)
    stage.there.write('.gitignore', '# nothing is ignored\n')
    stage.there.write('dir/.gitignore', '!*\n')
    await play.settle()
    await play.settle()
    assert.equal(stage.there.show('ignored'), undefined)
    assert.equal(stage.here.show('.gitignore'), 'ignored\n')
    assert.equal(stage.here.show('.gitignore.agentpod-conflict-1'), '# nothing is ignored\n')
    assert.equal(play.said.length, 2, play.said.join('\n'))
    stage.there.remove('.gitignore')
    await play.settle()
    await play.settle()
    assert.equal(stage.there.show('ignored'), undefined)
    assert.equal(play.said.length, 3, play.said.join('\n'))
    // No number of versions fills the disk here.
    for (let i = 0; i < 30; i++) {
      stage.there.write('.gitignore', `# ${i}\n`)
      await play.sync.settle([], ['.gitignore'])
    }
    assert.equal(stage.here.list().filter((path) => /^\.gitignore\.agentpod/.test(path)).length, 19)
    assert.equal(stage.here.show('.gitignore'), 'ignored\n')
    // The control: rules of this machine's own have the effect.
    stage.here.write('.gitignore', '# mine\n')
    await play.settle()
    assert.equal(stage.there.show('ignored'), 'the key')
  })

  test('a sandbox cannot write through a link', async () => {
    await using stage = twoDirectories(process.env)
    const victim = join(stage.top, 'victim')
    mkdirSync(victim)
    const play = await Play.begin(stage)
    stage.there.link('out', victim)
    stage.there.link('up', '../victim')
    stage.there.link('sly', 'dir/../../victim')
    stage.there.link('fine', 'dir/b')
    await play.settle()
    assert.deepEqual(
      ['out', 'up', 'sly', 'fine'].map((path) => stage.here.show(path)),
      [undefined, undefined, undefined, '-> dir/b'],
    )
    assert.equal(play.said.filter((line) => /the link points outside the project/.test(line)).length, 3)
    // A directory inside, where the person here has a link that leads elsewhere.
    symlinkSync(victim, join(stage.hostRoot, 'mine'))
    stage.there.remove('out')
    mkdirSync(join(stage.insideRoot, 'mine'))
    stage.there.write('mine/attack', 'bytes')
    await play.settle()
    await play.settle()
    assert.deepEqual(readdirSync(victim), [])
    assert.equal(stage.here.show('mine.agentpod-conflict-1'), 'bytes')
    // The control: in a directory of its own the same file comes out.
    stage.there.write('plain/attack', 'bytes')
    await play.settle()
    assert.equal(stage.here.show('plain/attack'), 'bytes')
  })

  test('files behind a refused link are not written', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    const victim = join(stage.top, 'victim')
    mkdirSync(victim)
    stage.there.link('d', victim)
    await play.settle()
    stage.there.remove('d')
    stage.there.write('d/x', 'in a directory now')
    await play.settle()
    assert.equal(stage.here.show('d/x'), 'in a directory now')
    assert.deepEqual(readdirSync(victim), [])
  })

  test('a sandbox cannot change git’s own files', async () => {
    await using stage = ignoringStage()
    const play = await Play.begin(stage)
    const before = readFileSync(join(stage.hostRoot, '.git/config'), 'utf8')
    for (const name of [
      '.git/config',
      '.git/hooks/pre-commit',
      'dir/.git/config',
      '.GIT/config',
      '.git./config',
    ])
      stage.there.write(name, 'attack', true)
    stage.there.link('hook', '.git/hooks/pre-commit')
    stage.there.write('.github/fine', 'fine')
    await play.settle()
    assert.equal(readFileSync(join(stage.hostRoot, '.git/config'), 'utf8'), before)
    assert.ok(!existsSync(join(stage.hostRoot, '.git/hooks/pre-commit')))
    assert.deepEqual(
      stage.here.list().filter((path) => /git/i.test(path)),
      ['.github/fine', '.gitignore'],
    )
  })

  test('names that look like commands or escapes arrive here unchanged', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    const names = [
      '-rf',
      '--help',
      'a b',
      "it's",
      '$(touch owned)',
      '`touch owned`',
      'new\nline',
      '*',
      '\\',
      'ü 🦀',
      '\u001b[31m',
    ]
    for (const name of names) stage.there.write(`odd/${name}`, name)
    for (const name of names) stage.here.write(`mine/${name}`, name)
    await play.settle()
    for (const name of names) assert.equal(stage.here.show(`odd/${name}`), name)
    for (const name of names) assert.equal(stage.there.show(`mine/${name}`), name)
    for (const name of names) stage.there.remove(`odd/${name}`)
    for (const name of names) stage.here.remove(`mine/${name}`)
    await play.settle()
    assert.deepEqual(contents(stage.here), AGREED)
    assert.deepEqual(contents(stage.there), AGREED)
  })

  test('a sandbox can set no mode bit except the executable one', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    stage.there.write('set', 'x', true)
    chmodSync(join(stage.insideRoot, 'set'), 0o6777)
    chmodSync(join(stage.insideRoot, 'a'), 0o755)
    chmodSync(join(stage.hostRoot, 'tool'), 0o600)
    await play.settle()
    assert.equal(lstatSync(join(stage.hostRoot, 'set')).mode & 0o7000, 0)
    assert.ok(stage.here.isExecutable('set') && stage.here.isExecutable('a'))
    assert.ok(!stage.there.isExecutable('tool'))
    // A file that others may not read stays one.
    stage.there.write('tool', 'changed', true)
    await play.settle()
    assert.equal(lstatSync(join(stage.hostRoot, 'tool')).mode & 0o777, 0o700)
  })

  test('a sandbox that loses its project removes nothing here', async () => {
    await using stage = twoDirectories(process.env)
    const files = Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`f${i}`, `${i}`]))
    const play = await Play.begin(stage, files)
    for (let i = 0; i < 100; i++) stage.there.remove(`f${i}`)
    await play.settle()
    assert.deepEqual(contents(stage.here), files)
    assert.equal(play.said.length, 1)
    rmSync(stage.insideRoot, { recursive: true })
    await assert.rejects(
      play.settle(),
      (error) => isAgentPodError(error) && error.reason === 'sync.workspace_gone',
    )
    assert.deepEqual(contents(stage.here), files)
    // The control: a few are taken.
    mkdirSync(stage.insideRoot)
    for (const [path, text] of Object.entries(files)) if (path !== 'f1') stage.there.write(path, text)
    await play.settle()
    assert.equal(stage.here.show('f1'), undefined)
    assert.equal(stage.here.show('f2'), '2')
  })

  test('a sandbox that makes a directory unreadable removes nothing here', {
    skip: process.getuid?.() === 0 && 'root enters everything',
  }, async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    chmodSync(join(stage.insideRoot, 'dir'), 0)
    await play.settle()
    chmodSync(join(stage.insideRoot, 'dir'), 0o755)
    assert.equal(stage.here.show('dir/b'), 'two')
  })

  test('a killed sync helper is started again', async () => {
    await using stage = twoDirectories(process.env)
    const play = await Play.begin(stage)
    stage.there.write('a', 'new')
    stage.access.killPrograms()
    await assert.rejects(play.settle(), (error) => isAgentPodError(error) && error.reason === 'sync.helper')
    await play.settle()
    assert.equal(stage.here.show('a'), 'new')
    assert.equal(stage.access.runningPrograms, 1)
  })
})

describe('sync with a full disk', () => {
  test('a full disk here loses nothing: it is reported once and the file is written later', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.host.isFull = true
    stage.there.write('a', 'new')
    stage.there.write('b', 'new')
    await play.settle()
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.there.show('a')], ['one', 'new'])
    assert.deepEqual(play.said, ['a is not synced: the disk is full', 'b is not synced: the disk is full'])
    assert.deepEqual(play.sync.unsaved, ['a', 'b'])
    stage.host.isFull = false
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.here.show('b')], ['new', 'new'])
    assert.deepEqual(play.sync.unsaved, [])
  })

  test('a full disk here during a conflict leaves both versions unchanged', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.host.isFull = true
    stage.here.write('a', 'mine')
    stage.there.write('a', 'theirs')
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.there.show('a')], ['mine', 'theirs'])
    assert.deepEqual(play.sync.unsaved, ['a'])
  })

  test('a full disk in the sandbox loses nothing', async () => {
    await using stage = twoMemorySides()
    const play = await Play.begin(stage)
    stage.inside.isFull = true
    stage.here.write('a', 'new')
    stage.there.remove('dir/b')
    await play.settle()
    assert.deepEqual([stage.here.show('a'), stage.there.show('a')], ['new', 'one'])
    assert.equal(stage.here.show('dir/b'), undefined)
    stage.inside.isFull = false
    await play.settle()
    assert.equal(stage.there.show('a'), 'new')
  })
})

test('a sandbox with many refused names cannot flood the terminal', async () => {
  await using stage = twoMemorySides()
  const play = await Play.begin(stage)
  for (let i = 0; i < 100; i++) stage.there.write(`bad/${i}/.GIT`, 'x')
  await play.settle()
  assert.equal(play.said.length, 21)
  assert.equal(play.said.at(-1), 'and 80 more')
})

test('a file that becomes ignored here is no longer sent, however soon it changes', async () => {
  await using stage = ignoringStage()
  const play = await Play.begin(stage)
  stage.here.write('.gitignore', 'ignored\na\n')
  assert.deepEqual(await play.sync.settle(['.gitignore'], []), { host: 'all', inside: 'all' })
  await play.sync.settle('all', 'all')
  stage.here.write('a', 'a key, by now')
  await play.sync.settle(['a'], [])
  await play.settle()
  assert.equal(stage.there.show('a'), 'one')
})

test('an excluded directory is not synced in either direction', async () => {
  await using stage = twoDirectories(process.env, ['node_modules', 'web/node_modules'])
  const play = await Play.begin(stage)
  stage.here.write('node_modules/a', 'here')
  stage.there.write('node_modules/b', 'there')
  stage.there.write('web/node_modules/b', 'there')
  stage.there.write('web/node_modules.txt', 'there')
  await play.settle()
  await play.sync.settle(['node_modules/a'], ['node_modules/b', 'web/node_modules/b'])
  assert.equal(stage.there.show('node_modules/a'), undefined)
  assert.equal(stage.here.show('node_modules/b'), undefined)
  assert.equal(stage.here.show('web/node_modules/b'), undefined)
  assert.equal(stage.here.show('web/node_modules.txt'), 'there')
})

test('a file that becomes ignored here is kept on both sides', async () => {
  await using stage = ignoringStage()
  const play = await Play.begin(stage)
  stage.here.write('.gitignore', 'ignored\ntool\n')
  await play.settle()
  assert.deepEqual([stage.here.show('tool'), stage.there.show('tool')], ['#!/bin/sh', '#!/bin/sh'])
  stage.there.write('tool', 'of the sandbox alone')
  await play.settle()
  assert.equal(stage.here.show('tool'), '#!/bin/sh')
})

test('large and empty files arrive whole', async () => {
  await using stage = twoDirectories(process.env)
  const play = await Play.begin(stage)
  const large = 'x'.repeat(3 * 1024 * 1024)
  stage.here.write('large-in', large, true)
  stage.there.write('large-out', large)
  stage.here.write('empty-in', '')
  stage.there.write('empty-out', '')
  await play.settle()
  assert.equal(stage.there.show('large-in'), large)
  assert.ok(stage.there.isExecutable('large-in'))
  assert.equal(stage.here.show('large-out'), large)
  assert.deepEqual([stage.there.show('empty-in'), stage.here.show('empty-out')], ['', ''])
})

test('hundreds of files at once arrive in both directions', async () => {
  await using stage = twoDirectories(process.env)
  const play = await Play.begin(stage)
  for (let i = 0; i < 300; i++) stage.here.write(`in/${i % 7}/${i}`, `${i}`)
  for (let i = 0; i < 300; i++) stage.there.write(`out/${i % 7}/${i}`, `${i}`)
  await play.settle()
  assert.deepEqual(contents(stage.here), contents(stage.there))
  assert.equal(stage.here.list().length, 604)
})

test('ENV-13 nothing is lost in a thousand random steps on both sides', async () => {
  for (let seed = 1; seed <= 12; seed++) await walk(seed)
})

const NAMES = ['a', 'b', 'c', 'c/d', 'c/e', 'c/d/f', 'g/h', 'i']

async function walk(seed: number): Promise<void> {
  const random = new SeededRandom(seed)
  await using stage = twoMemorySides()
  const play = await Play.begin(stage)
  let count = 0
  const step = (hands: SideEditor): void => {
    const path = NAMES[random.below(NAMES.length)] ?? 'a'
    const what = random.below(10)
    if (what < 2 && hands.show(path) !== undefined) hands.remove(path)
    else if (what < 3) hands.link(path, NAMES[random.below(NAMES.length)] ?? 'a')
    else hands.write(path, `${seed}.${count++}`, random.below(4) === 0)
  }
  // Every text is written once. One that both sides had may be removed again; one that only one side had may
  // not get lost.
  const shared = new Set(Object.values(AGREED))
  const note = (): void => {
    const there = new Set(texts(stage.there))
    for (const text of texts(stage.here)) if (there.has(text)) shared.add(text)
  }
  for (let round = 0; round < 250; round++) {
    for (let i = random.below(4); i >= 0; i--) step(random.below(2) === 0 ? stage.here : stage.there)
    // In every other round others come in between; what they write over themselves is theirs to lose.
    const isCalm = round % 2 === 0
    for (const side of [stage.host, stage.inside])
      side.before = () => {
        note()
        if (!isCalm && random.below(6) === 0) step(side)
      }
    const before = [...texts(stage.here), ...texts(stage.there)]
    await play.sync.settle('all', 'all')
    const left = new Set([...texts(stage.here), ...texts(stage.there)])
    for (const text of before)
      assert.ok(!isCalm || shared.has(text) || left.has(text), `${text} of seed ${seed} in round ${round}`)
    note()
  }
  for (const side of [stage.host, stage.inside]) side.before = () => undefined
  await play.settle()
  for (const path of NAMES)
    if (stage.here.show(path) !== stage.there.show(path))
      assert.ok(
        play.said.some((line) => line.includes(path)),
        `${path} differs and nobody said so`,
      )
}

function texts(hands: SideEditor): string[] {
  return hands.list().flatMap((path) => {
    const text = hands.show(path)
    return text === undefined || text.startsWith('->') ? [] : [text]
  })
}
