/** What outside verification found for an ordinary user: somebody without root, with a range in /etc/subuid. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeOrdinaryUser, noOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { World } from '../support/world.ts'

const skip = noOrdinaryUser()
let user: OrdinaryUser
let world: World
let repository: string

before(() => {
  if (skip) return
  user = makeOrdinaryUser()
  world = new World({ home: join(user.home, 'state'), as: user })
  repository = join(user.home, 'project')
  mkdirSync(repository)
  writeFileSync(join(repository, 'a.txt'), 'a\n')
  execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, repository])
  const git = (...args: string[]): Buffer =>
    execFileSync('git', args, { cwd: repository, uid: user.uid, gid: user.gid, env: gitEnv() })
  git('init', '-q', '-b', 'main')
  git('add', '.')
  git('-c', 'user.name=u', '-c', 'user.email=u@localhost', 'commit', '-qm', 'begin')
})
after(async () => {
  if (skip) return
  await world[Symbol.asyncDispose]()
  user[Symbol.dispose]()
})

function gitEnv(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], HOME: user.home, GIT_CONFIG_NOSYSTEM: '1' }
}

test('U1: in a repository, an ordinary user’s command runs on a copy and leaves a branch', {
  skip,
}, async () => {
  const listed = await world.cli(['run', '--', 'ls'], { cwd: repository })
  assert.equal(listed.code, 0, listed.stderr)
  assert.equal(listed.stdout, 'a.txt\n')
  const bare = await world.cli(['run', '--bare', '--', 'id', '-u'], { cwd: repository })
  assert.deepEqual([bare.code, bare.stdout], [0, '1000\n'], bare.stderr)
  const changed = await world.cli(['run', '--', 'sh', '-c', 'echo b > b.txt'], { cwd: repository })
  assert.equal(changed.code, 0, changed.stderr)
  const [branch = ''] = /agentpod\/\S+/.exec(changed.stderr) ?? []
  const shown = execFileSync('git', ['show', `${branch}:b.txt`], {
    cwd: repository,
    uid: user.uid,
    gid: user.gid,
    env: gitEnv(),
    encoding: 'utf8',
  })
  assert.equal(shown, 'b\n')
})

test('U2: an ordinary user has the debian base and E2B’s door, and apt on this machine stays as it is', {
  skip,
}, async () => {
  const lists = (): string =>
    execFileSync('ls', ['-l', '--time-style=full-iso', '/var/lib/apt/lists'], { encoding: 'utf8' })
  const before = lists()
  const script = 'grep ^ID= /etc/os-release; ls -A /tmp /var/lib/apt/lists'
  const args = ['run', '--no-project', '--base', 'debian', '--', 'sh', '-c', script]
  const { code, stdout, stderr } = await world.cli(args, { timeoutMs: 300_000 })
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^ID=debian\n\/tmp:\n/)
  assert.doesNotMatch(stdout, /InRelease/, 'the layer holds no package lists')
  assert.equal(lists(), before)
  assert.match(await world.ok(['e2b', 'env']), /E2B_API_KEY=/)
})
