/** Directories that are never kept, in real sandboxes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Sandbox } from '../../src/exports/client.ts'
import { World } from '../support/world.ts'

const world = new World()
const pod = world.client()
after(async () => {
  pod.close()
  await world[Symbol.asyncDispose]()
})

const git = (cwd: string, ...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd, encoding: 'utf8' })

const shell = async (sandbox: Sandbox, script: string): Promise<string> => {
  const { stdout, stderr } = await sandbox.exec('sh', { args: ['-c', script], user: 'user' }).wait()
  return `${stdout}${stderr}`.trimEnd()
}

const LOOK = 'ls -A ~/out /srv/out; stat -c "%U %a" ~/out /srv/out; cat ~/kept'
const EMPTY = '/home/user/out:\n\n/srv/out:\nuser 1777\nroot 1777\nkept'
const WRITE = 'echo x > ~/out/file && echo x > /srv/out/file && echo kept > ~/kept'

test('LIFE-6 an ephemeral directory is empty after stop, in snapshots and in forks, with its owner', async () => {
  const ephemeral = [{ path: '/home/user/out', sizeMib: 4 }, { path: '/srv/out' }]
  await using sandbox = await pod.create({ ephemeral })
  assert.deepEqual(sandbox.info.ephemeral, ephemeral)
  assert.equal(await shell(sandbox, WRITE), '')
  assert.match(await shell(sandbox, 'head -c 8388608 /dev/zero > ~/out/big'), /No space left/)
  const [fork] = await sandbox.fork()
  assert.ok(fork)
  assert.equal(await shell(fork, LOOK), EMPTY)
  // What the fork writes is not kept either.
  await shell(fork, WRITE)
  const { id } = await fork.snapshot()
  await fork.destroy()
  await using restored = await pod.create({ snapshot: id })
  assert.equal(await shell(restored, LOOK), EMPTY)
  await sandbox.pause()
  await sandbox.resume()
  assert.equal(await shell(sandbox, 'cat ~/out/file'), 'x', 'the control: a pause keeps memory')
  await sandbox.stop()
  await sandbox.start()
  assert.equal(await shell(sandbox, LOOK), EMPTY)
})

test('LIFE-6 the directories of [ephemeral] are no part of the branch or patch of a run', async () => {
  const cwd = world.directory()
  mkdirSync(join(cwd, 'tmp'))
  writeFileSync(join(cwd, 'tmp', '.keep'), '')
  writeFileSync(join(cwd, 'a.txt'), 'one\n')
  writeFileSync(join(cwd, 'agentpod.toml'), '[ephemeral]\npaths = ["tmp", "~/out"]\n')
  const script = 'ls -A tmp ~/out; echo x > tmp/file; echo x > ~/out/file; echo two > a.txt'
  const run = () => world.cli(['run', '--', 'sh', '-c', script], { cwd })
  const listed = 'tmp:\n\n/home/user/out:\n'
  const patched = await run()
  assert.deepEqual([patched.code, patched.stdout.split('\n').sort()], [0, listed.split('\n').sort()])
  assert.match(patched.stderr, /agentpod\.toml:2 tmp is never kept: the file of the project/)
  const patch = readFileSync(/\S+\.patch/.exec(patched.stderr)?.[0] ?? '', 'utf8')
  assert.deepEqual(patch.match(/^diff --git .*/gm), ['diff --git a/a.txt b/a.txt'])
  git(cwd, 'init', '-q', '-b', 'main')
  git(cwd, 'add', '-A')
  git(cwd, 'commit', '-qm', 'first')
  // The second run starts from the copy that the first one prepared.
  for (const _ of [1, 2]) {
    const { code, stderr } = await run()
    const branch = /^branch (\S+)$/m.exec(stderr)?.[1] ?? ''
    assert.equal(code, 0, stderr)
    assert.equal(git(cwd, 'diff', '--name-status', 'main', branch), 'M\ta.txt\n')
  }
  writeFileSync(join(cwd, 'agentpod.toml'), '[ephemeral]\npaths = ["/home/user"]\n')
  const hiding = await run()
  assert.notEqual(hiding.code, 0)
  assert.match(hiding.stderr, /agentpod\.toml:2 .*would hide the copy of the project/s)
})

test('LIFE-6 dev --sync copies nothing into an ephemeral directory, and nothing out of it', async () => {
  const cwd = join(world.directory(), 'synced')
  mkdirSync(join(cwd, 'tmp'), { recursive: true })
  writeFileSync(join(cwd, 'tmp', 'here'), '')
  writeFileSync(
    join(cwd, 'agentpod.toml'),
    '[ephemeral]\npaths = ["tmp"]\n[lifecycle]\ndev = "ls tmp; touch tmp/inside made"\n',
  )
  const { code, stdout, stderr } = await world.cli(['dev', '--sync', '--no-forward'], { cwd })
  assert.equal(code, 0, stderr)
  assert.equal(stdout, '')
  assert.deepEqual(readdirSync(cwd).sort(), ['agentpod.toml', 'made', 'tmp'])
  assert.deepEqual(readdirSync(join(cwd, 'tmp')), ['here'])
})
