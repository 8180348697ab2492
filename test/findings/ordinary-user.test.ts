/** Findings of the outside verification about ordinary users: without root, with a range in /etc/subuid. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { quietly, servingPodds } from '../support/host-view.ts'
import { makeOrdinaryUser, noOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { until, World } from '../support/world.ts'

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

test('U3: STATE-2 without a cgroup, a sandbox is paused, snapshotted and forked while it runs', {
  skip,
}, async () => {
  const count = 'i=0; while :; do i=$((i+1)); echo $i > ~/new; mv ~/new ~/count; done'
  await world.ok(['create', '--name', 'counter'])
  await world.ok(['exec', 'counter', '--', 'sh', '-c', `setsid sh -c '${count}' >/dev/null 2>&1 & sleep 0.2`])
  const counted = async (name: string): Promise<number> =>
    Number(await world.ok(['exec', name, '--', 'cat', '/home/user/count']))
  await world.ok(['snapshot', 'create', 'counter', '--name', 'moment'])
  await world.ok(['fork', 'counter', '--count', '2', '--name', 'copy'])
  assert.ok((await counted('copy-1')) > 0)
  assert.equal(await counted('copy-1'), await counted('copy-2'), 'both are of one moment')
  await world.ok(['pause', 'counter'])
  const states = (): string[] =>
    execFileSync('ps', ['-eo', 'stat=,args='], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.includes('sh -c i=0; while :;'))
      .map((line) => line.trim()[0] ?? '')
  assert.deepEqual(new Set(states()), new Set(['T']))
  await world.ok(['resume', 'counter'])
  const before = await counted('counter')
  await until('it counts on', async () => (await counted('counter')) > before)
  await world.ok(['restore', 'moment', '--name', 'again'])
  assert.ok((await counted('again')) > 0)
  const { pause } = (await world.client().server()).capabilities
  assert.equal(pause, 'signals')
  await world.ok(['destroy', 'counter', 'copy-1', 'copy-2', 'again'])
})

test('U3: the first sandbox of an ordinary user says once which limits do not hold', {
  skip,
}, async () => {
  await using fresh = new World({ home: join(user.home, 'fresh'), as: user })
  const created = async (...more: string[]): Promise<string> => {
    const { code, stdout, stderr } = await fresh.cli(['create', ...more])
    assert.equal(code, 0, stderr)
    assert.doesNotMatch(stdout, /note:/)
    return stderr
  }
  assert.equal(await created('--json'), '')
  const told = await created()
  assert.match(told, /^note: .*disk limits do not hold: only root can mount a pool/m)
  const { limits } = (await fresh.client().server()).capabilities
  if (limits === 'enforced') assert.doesNotMatch(told, /memory/)
  else assert.match(told, /^note: limits on memory and processors do not hold: .*(run|install|boot|shows) /m)
  assert.equal(await created(), '')
  assert.equal((await fresh.cli(['run', '--no-project', '--', 'true'])).stderr, '')
})

test('U4: compiled code is kept for an ordinary user too, in a directory that is theirs alone', {
  skip,
}, async () => {
  const shared = join(user.home, 'tmp')
  mkdirSync(shared, { mode: 0o777 })
  chmodSync(shared, 0o777)
  await world.ok(['ls'], { env: { TMPDIR: shared } })
  const compiled = join(world.home, 'cache', 'compiled')
  assert.ok(readdirSync(compiled, { recursive: true }).length > 5, 'it is kept for the next call')
  assert.equal(statSync(compiled).uid, user.uid)
  assert.equal(statSync(world.home).mode & 0o777, 0o700)
  assert.deepEqual(readdirSync(shared), [], 'nothing that is run comes from a directory that others write in')
})

test('U4: an ordinary user has sandboxes started ahead, and a podhost that is killed leaves none of them', {
  skip,
}, async () => {
  await world.ok(['create', '--name', 'kept'])
  const isAlive = (pid: number): boolean =>
    quietly(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.includes('podd') ?? false
  const podhosts = (): number[] =>
    execFileSync('pgrep', ['-u', user.name, '-f', 'podhost serve'], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map(Number)
  const pidOf = (id: string): number =>
    (JSON.parse(readFileSync(join(world.home, 'sandboxes', id, 'handle.json'), 'utf8')) as { pid: number })
      .pid
  const startedAhead = async (): Promise<number[]> => {
    let pids: number[] = []
    await until('sandboxes are started ahead', () => {
      const taken = readdirSync(join(world.home, 'sandboxes')).map(pidOf)
      pids = podhosts()
        .flatMap(servingPodds)
        .filter((pid) => !taken.includes(pid))
      return pids.length === 4
    })
    return pids
  }
  const ahead = await startedAhead()
  const { id } = JSON.parse(await world.ok(['create', '--name', 'quick', '--json'])) as { id: string }
  assert.ok(ahead.includes(pidOf(id)), 'the control: one was taken')
  assert.equal(
    await world.ok(['exec', 'quick', '--', 'bash', '-c', 'ulimit -u']),
    '1024\n',
    'its limits hold',
  )
  await world.ok(['destroy', 'quick'])
  const blank = await startedAhead()
  for (const pid of podhosts()) process.kill(pid, 'SIGKILL')
  await until('none of them is left', () => !blank.some(isAlive))
  assert.equal(
    await world.ok(['exec', 'kept', '--', 'echo', 'fine']),
    'fine\n',
    'the control: a sandbox goes on',
  )
  await world.ok(['destroy', 'kept'])
})
