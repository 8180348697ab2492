import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { makeOrdinaryUser, noOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { until, World } from '../support/world.ts'

const skip = noOrdinaryUser()
let user: OrdinaryUser
let world: World

before(() => {
  if (skip) return
  user = makeOrdinaryUser()
  world = new World({ home: join(user.home, 'state'), as: user })
})
after(async () => {
  if (skip) return
  await world[Symbol.asyncDispose]()
  user[Symbol.dispose]()
})

test('BOX-9 an ordinary user runs a command on a copy of a project', { skip }, async () => {
  const cwd = join(user.home, 'project')
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'a.txt'), 'a\n')
  chownSync(cwd, user.uid, user.gid)
  const script = 'id -u; cat a.txt; echo b > b.txt; exit 4'
  const { code, stdout, stderr } = await world.cli(['run', '--', 'sh', '-c', script], { cwd })
  assert.equal(code, 4, stderr)
  assert.equal(stdout, '1000\na\n')
  assert.match(stderr, /added {8}b\.txt/)
})

test('BOX-9 programs inside run neither as the user nor as root of the host', { skip }, async () => {
  await world.ok(['create', '--name', 'box'])
  const running = world.cli(['exec', '--user', 'root', 'box', '--', 'sleep', '77.125'])
  const owners = (): string[] =>
    execFileSync('ps', ['-eo', 'uid,args'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => /^ *\d+ sleep 77\.125/.test(line))
      .map((line) => line.trim().split(' ')[0] ?? '')
  await until('it runs', () => owners().length === 1)
  assert.ok(Number(owners()[0]) >= 100_000, `uid ${owners()[0]}`)
  await world.ok(['destroy', 'box'])
  await running
})

test('VOL-1 an ordinary user has volumes, and learns that their size is not enforced', { skip }, async () => {
  const made = await world.cli(['volume', 'create', '--size', '64m', 'data'])
  assert.deepEqual([made.code, made.stdout], [0, 'data\n'], made.stderr)
  assert.match(made.stderr, /not enforced here: /)
  const run = (script: string): Promise<string> =>
    world.ok(['run', '--no-project', '--volume', 'data:/home/user/.cache/tool', '--', 'sh', '-c', script])
  await run('echo kept > ~/.cache/tool/file')
  assert.equal(await run('cat ~/.cache/tool/file; stat -c %U ~/.cache/tool/file'), 'kept\nuser\n')
  assert.match(await world.ok(['volume', 'ls']), /64\.0 MiB \(not enforced\)/)
  await world.ok(['volume', 'rm', 'data'])
})

test('the host base is read-only below /usr, and the home directory is writable', { skip }, async () => {
  await world.ok(['create', '--name', 'box'])
  const script = 'touch /usr/x 2>/dev/null && echo written; touch ~/x && echo home'
  assert.equal(await world.ok(['exec', '--user', 'root', 'box', '--', 'sh', '-c', script]), 'home\n')
  await world.ok(['destroy', 'box'])
})

test('root inside adds to /opt, where builds install toolchains, and the host’s /opt stays as it is', {
  skip,
}, async () => {
  const before = readdirSync('/opt')
  await world.ok(['create', '--name', 'tools'])
  const asRoot = (name: string, script: string): Promise<string> =>
    world.ok(['exec', '--user', 'root', name, '--', 'sh', '-c', script])
  await asRoot('tools', 'mkdir -p /opt/agentpod/x && echo one > /opt/agentpod/x/file')
  for (const name of before)
    assert.equal(await asRoot('tools', `touch '/opt/${name}/new' 2>/dev/null && echo written; true`), '')
  const { code } = await world.cli(['exec', 'tools', '--', 'touch', '/opt/agentpod/x/mine'])
  assert.equal(code, 1, 'the user inside may not')
  await world.ok(['snapshot', 'create', 'tools', '--name', 'with-tools'])
  await world.ok(['restore', 'with-tools', '--name', 'again'])
  const said = await asRoot('again', 'cat /opt/agentpod/x/file; rm -r /opt/agentpod; LC_ALL=C ls -A /opt')
  assert.deepEqual(said.split('\n').slice(0, -1), ['one', ...before.toSorted()])
  assert.deepEqual(readdirSync('/opt'), before)
  await world.ok(['destroy', 'tools', 'again'])
})

test('BOX-9 a requested limit that cannot hold is refused, and a default that cannot hold is in the record', {
  skip,
}, async () => {
  await world.ok(['create', '--name', 'box'])
  const [box] = JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]
  const memory = box?.limits?.memory
  await world.ok(['destroy', 'box'])
  const refused = await world.cli(['create', '--memory', '256m'])
  if (memory?.level === 'enforced') {
    assert.equal(refused.code, 0, 'a delegated cgroup enforces it')
    return
  }
  assert.ok(memory?.reason)
  assert.equal(refused.code, 6)
  assert.match(refused.stderr, /cannot enforce a limit on memory/)
  assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
})

test('where no cgroup counts processes, the sandbox’s own user namespace does', { skip }, async () => {
  await world.ok(['create', '--name', 'box'])
  const program = `
import os, time
made, why = 0, 0
try:
  for _ in range(2000):
    if os.fork() == 0: time.sleep(60); os._exit(0)
    made += 1
except OSError as error: why = error.errno
print(made, why)`
  const [made, why] = (await world.ok(['exec', 'box', '--', 'python3', '-c', program])).split(' ').map(Number)
  await world.ok(['destroy', 'box'])
  assert.equal(why, constants.errno.EAGAIN)
  assert.ok(made && made > 900 && made < 1024, `${made} processes under a limit of 1024`)
})

test('doctor says which limits hold and which do not', { skip }, async () => {
  const { code, stdout } = await world.cli(['doctor'])
  assert.equal(code, 0, stdout)
  assert.match(stdout, /Sandboxes work here/)
})

test('reset removes everything without root’s help', { skip }, async () => {
  await world.ok(['create'])
  await world.ok(['reset', '--yes'])
  assert.equal(execFileSync('find', [user.home, '-path', '*state*'], { encoding: 'utf8' }), '')
})
