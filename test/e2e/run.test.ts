import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

function project(): string {
  const directory = world.directory()
  const git = (...args: string[]): void =>
    void execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: directory })
  git('init', '-q')
  writeFileSync(join(directory, 'tracked.txt'), 'one\n')
  writeFileSync(join(directory, 'run.sh'), '#!/bin/sh\necho ran\n')
  chmodSync(join(directory, 'run.sh'), 0o755)
  mkdirSync(join(directory, 'sub'))
  writeFileSync(join(directory, 'sub', 'ümlaut name.txt'), 'two\r\n')
  writeFileSync(join(directory, '.gitignore'), 'ignored\n')
  writeFileSync(join(directory, 'ignored'), 'secret of the author\n')
  symlinkSync('tracked.txt', join(directory, 'link'))
  git('add', '.')
  git('commit', '-qm', 'first')
  writeFileSync(join(directory, 'untracked.txt'), 'three\n')
  return directory
}

test('BOX-1 run copies what git does not ignore, with modes and links as they are', async () => {
  const cwd = project()
  const out = await world.ok(
    [
      'run',
      '--',
      'sh',
      '-c',
      'find . -name .git -prune -o -type f -print | sort; readlink link; ./run.sh; cat link',
    ],
    { cwd },
  )
  assert.deepEqual(out.trimEnd().split('\n'), [
    './.gitignore',
    './run.sh',
    './sub/ümlaut name.txt',
    './tracked.txt',
    './untracked.txt',
    'tracked.txt',
    'ran',
    'one',
  ])
})

test('BOX-1 run exits with the exit code of its command', async () => {
  const { code } = await world.cli(['run', '--', 'sh', '-c', 'exit 42'], { cwd: project() })
  assert.equal(code, 42)
})

test('run passes stdin through', async () => {
  const input = 'x'.repeat(300_000)
  assert.equal(await world.ok(['run', '--', 'cat'], { cwd: project(), input }), input)
})

test('BOX-1 BOX-2 RUN-21 run lists what changed and makes a branch that makes the same change here', async () => {
  const cwd = project()
  const script =
    'echo more >> tracked.txt; rm untracked.txt; chmod -x run.sh; printf "a\\000b" > bin; ln -s sub newlink; mv "sub/ümlaut name.txt" moved'
  const { code, stderr } = await world.cli(['run', '--', 'sh', '-c', script], { cwd })
  assert.equal(code, 0)
  assert.match(stderr, /7 files changed/)
  for (const line of [
    'modified     tracked.txt',
    'deleted      untracked.txt',
    'added        bin',
    'added        moved',
    'deleted      sub/ümlaut name.txt',
  ]) {
    assert.ok(stderr.includes(line), `${line} in ${stderr}`)
  }
  assert.equal(readFileSync(join(cwd, 'tracked.txt'), 'utf8'), 'one\n', 'the project itself is untouched')
  const branch = /^branch (\S+)$/m.exec(stderr)?.[1] ?? ''
  assert.match(branch, /^agentpod\/.*-run-1$/)
  assert.match(await world.ok(['diff', branch, 'tracked.txt'], { cwd }), /^\+more$/m)
  await world.ok(['apply', branch], { cwd })
  assert.equal(readFileSync(join(cwd, 'tracked.txt'), 'utf8'), 'one\nmore\n')
  assert.equal(existsSync(join(cwd, 'untracked.txt')), false)
  assert.equal(lstatSync(join(cwd, 'run.sh')).mode & 0o111, 0)
  assert.deepEqual(readFileSync(join(cwd, 'bin')), Buffer.from('a\0b'))
  assert.equal(readlinkSync(join(cwd, 'newlink')), 'sub')
  assert.equal(readFileSync(join(cwd, 'moved'), 'utf8'), 'two\r\n')
})

test('RUN-21 the branch of a command is merged like that of an agent', async () => {
  const cwd = project()
  const { stderr } = await world.cli(['run', '--clean', '--', 'sh', '-c', 'echo more >> tracked.txt'], {
    cwd,
  })
  const branch = /^branch (\S+)$/m.exec(stderr)?.[1] ?? ''
  await world.ok(['merge', branch], { cwd })
  assert.equal(readFileSync(join(cwd, 'tracked.txt'), 'utf8'), 'one\nmore\n')
  const status = execFileSync('git', ['status', '--short'], { cwd, encoding: 'utf8' })
  assert.equal(status, '?? untracked.txt\n')
})

test('run does not bring back files that the project ignores', async () => {
  const { stderr } = await world.cli(['run', '--', 'sh', '-c', 'echo built > ignored'], { cwd: project() })
  assert.doesNotMatch(stderr, /changed/)
})

test('BOX-1 BOX-2 run copies a whole directory that is not a git repository', async () => {
  const cwd = world.directory()
  writeFileSync(join(cwd, 'a'), 'a')
  mkdirSync(join(cwd, 'empty'))
  writeFileSync(join(cwd, '.hidden'), 'h')
  const { stdout, stderr } = await world.cli(['run', '--', 'sh', '-c', 'ls -A; echo b > b'], { cwd })
  assert.deepEqual(stdout.trimEnd().split('\n'), ['.hidden', 'a', 'empty'])
  assert.match(stderr, /added {8}b/)
})

test('run leaves no sandbox, and --keep leaves one that works', async () => {
  const cwd = project()
  await world.ok(['run', '--', 'true'], { cwd })
  assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
  await world.ok(['run', '--keep', '--name', 'kept', '--', 'sh', '-c', 'echo here > left'], { cwd })
  assert.equal(await world.ok(['exec', 'kept', '--', 'sh', '-c', 'cat ~/*/left']), 'here\n')
  await world.ok(['destroy', 'kept'])
  assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
})

test('run reports a command that does not exist, and leaves nothing', async () => {
  const { code, stderr } = await world.cli(['run', '--', 'no-such-program'], { cwd: project() })
  assert.equal(code, 125)
  assert.match(stderr, /no-such-program/)
  assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
})

test('run names an unreadable directory, and leaves nothing', {
  skip: process.getuid?.() === 0 && 'root reads everything',
}, async () => {
  const cwd = world.directory()
  mkdirSync(join(cwd, 'closed'), { mode: 0 })
  const { code, stderr } = await world.cli(['run', '--', 'true'], { cwd })
  assert.equal(code, 2)
  assert.match(stderr, /closed/)
})

test('run refuses the root directory and the home directory as projects', async () => {
  for (const cwd of ['/', process.env['HOME'] ?? '/root']) {
    const { code, stderr } = await world.cli(['run', '--', 'true'], { cwd })
    assert.equal(code, 2)
    assert.match(stderr, /--no-project/)
  }
  assert.equal(await world.ok(['run', '--no-project', '--', 'pwd'], { cwd: '/' }), '/home/user\n')
})

test('run shows hostile file names as text', async () => {
  const { stderr } = await world.cli(['run', '--', 'sh', '-c', `touch "$(printf 'a\\033[31mred')"`], {
    cwd: project(),
  })
  assert.match(stderr, /left out.*a\?\[31mred/)
  assert.ok(!stderr.includes('\u001b'))
})
