/**
 * Groups FS and CP, through E2B's door: file calls that may act as root give root to nobody, and the server
 * inside is not the daemon.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { shell } from '../support/probe.ts'
import { World } from '../support/world.ts'

const world = new World()
let url: string
let key: string
let plain: Sandbox
let sudo: Sandbox

before(async () => {
  const client = world.client()
  plain = await client.create({
    labels: { 'agentpod/template': 'test' },
    environment: { variables: { MINE: 'yes' } },
  })
  sudo = await client.create({ environment: { sudo: true } })
  key = (await world.ok(['key', 'create', '--scope', 'admin', '--quiet'])).trim()
  const { port } = await client.listen()
  url = `http://127.0.0.1:${port}`
})
after(async () => world[Symbol.asyncDispose]())

interface Answer {
  readonly status: number
  readonly text: string
}

async function send(path: string, init: RequestInit): Promise<Answer> {
  const answer = await fetch(url + path, init)
  return { status: answer.status, text: await answer.text() }
}

const tokens = new Map<string, string>()
async function tokenOf({ info: { id } }: Sandbox): Promise<string> {
  const known = tokens.get(id)
  if (known) return known
  const { text } = await send(`/sandboxes/${id}`, { headers: { 'x-api-key': key } })
  const { envdAccessToken } = JSON.parse(text) as { envdAccessToken: string }
  tokens.set(id, envdAccessToken)
  return envdAccessToken
}

/** As E2B's SDKs ask. */
async function e2b(
  sandbox: Sandbox,
  method: 'GET' | 'POST',
  path: string,
  body?: string | object,
): Promise<Answer> {
  const isFile = path.startsWith('/files?')
  return send(path, {
    method,
    headers: {
      'e2b-sandbox-id': sandbox.info.id,
      'x-access-token': await tokenOf(sandbox),
      'content-type': isFile ? 'application/octet-stream' : 'application/json',
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
}
const call = (sandbox: Sandbox, name: string, body: object): Promise<Answer> =>
  e2b(sandbox, 'POST', `/filesystem.Filesystem/${name}`, body)
const write = (sandbox: Sandbox, path: string, text: string): Promise<Answer> =>
  e2b(sandbox, 'POST', `/files?path=${encodeURIComponent(path)}`, text)
const read = (sandbox: Sandbox, path: string): Promise<Answer> =>
  e2b(sandbox, 'GET', `/files?path=${encodeURIComponent(path)}`)

test('FS-30 file calls act as the user alone where programs inside may not become root', async () => {
  await shell(plain, 'ln -s /etc/passwd /home/user/out; ln -s /etc /home/user/etc')
  for (const [what, answer] of [
    ['a directory', await call(plain, 'MakeDir', { path: '/workspace' })],
    ['a file', await write(plain, '/etc/made', 'x')],
    ['through a link', await write(plain, '/home/user/out', 'x')],
    ['below a link', await write(plain, '/home/user/etc/made', 'x')],
    ['a move', await call(plain, 'Move', { source: '/etc/passwd', destination: '/home/user/passwd' })],
    ['a removal', await call(plain, 'Remove', { path: '/etc/passwd' })],
  ] as const)
    assert.deepEqual([answer.status, what], [403, what], answer.text)
  assert.match(await shell(plain, 'stat -c %U /etc/passwd; ls -d /workspace /etc/made'), /^root\n(?!\/)/)
  const control = await call(sudo, 'MakeDir', { path: '/workspace' })
  assert.equal(control.status, 200, `the control: with sudo it is made: ${control.text}`)
})

test('FS-30 our own door acts as the user, whatever header a client sends', async () => {
  const admin = new AgentPod({ url, key })
  const own = await admin.get(sudo.info.id)
  await assert.rejects(own.writeFile('/etc/by-own-door', Buffer.from('x')), /permission denied/)
  const forged = await send('/files?path=/etc/by-own-door', {
    method: 'POST',
    headers: {
      'x-api-key': key,
      'agentpod-sandbox': sudo.info.id,
      'agentpod-file-rules': 'e2b',
      'content-type': 'application/octet-stream',
    },
    body: 'x',
  })
  assert.equal(forged.status, 403, forged.text)
  assert.equal(
    (await write(sudo, '/etc/by-own-door', 'x')).status,
    200,
    'the control: by E2B’s rules it is written',
  )
})

const SETUP = `
mkdir -p /etc/kept /srv/theirs && echo safe > /etc/kept/file && chmod 700 /etc/kept
chown 1:1 /srv/theirs
`

test('FS-30 a link of somebody else inside leads root nowhere', async () => {
  await shell(sudo, SETUP, { user: 'root' })
  await shell(sudo, 'ln -s /etc/kept/file /srv/theirs/out; ln -s /etc/kept /srv/theirs/dir', {
    user: 'daemon',
  })
  for (const [what, answer] of [
    ['a link at the end', await write(sudo, '/srv/theirs/out', 'bad')],
    ['a link on the way', await write(sudo, '/srv/theirs/dir/file', 'bad')],
    ['a new file', await write(sudo, '/srv/theirs/dir/new', 'bad')],
    ['a new directory', await call(sudo, 'MakeDir', { path: '/srv/theirs/dir/new' })],
    ['a removal', await call(sudo, 'Remove', { path: '/srv/theirs/dir/file' })],
    ['a move', await call(sudo, 'Move', { source: '/srv/theirs/dir/file', destination: '/home/user/file' })],
    [
      'a move there',
      await call(sudo, 'Move', { source: '/etc/hostname', destination: '/srv/theirs/dir/new' }),
    ],
  ] as const)
    assert.deepEqual([answer.status, what], [403, what], answer.text)
  const seen = 'cat /etc/kept/file; stat -c %U /etc/kept /etc/kept/file; ls /etc/kept'
  assert.equal(await shell(sudo, seen, { user: 'root' }), 'safe\nroot\nroot\nfile\n')
  await shell(sudo, 'ln -s /etc/kept /srv/by-root', { user: 'root' })
  assert.equal(
    (await write(sudo, '/srv/by-root/new', 'good')).status,
    200,
    'the control: root’s own link is followed',
  )
})

test('FS-30 a file of two names keeps its owner', async () => {
  await shell(sudo, 'echo x > /etc/first; ln /etc/first /srv/second; echo x > /etc/alone', { user: 'root' })
  assert.equal((await write(sudo, '/srv/second', 'y')).status, 200)
  assert.equal((await write(sudo, '/etc/alone', 'y')).status, 200)
  assert.equal(
    await shell(sudo, 'stat -c %U /etc/first /etc/alone'),
    'root\nuser\n',
    'the one with one name is the control',
  )
})

/** The pid of a Python program that runs on. */
async function inBackground(sandbox: Sandbox, program: string, user: string): Promise<string> {
  const code = Buffer.from(program).toString('base64')
  const script = `echo ${code} | base64 -d > /tmp/${user}.py; python3 /tmp/${user}.py > /dev/null 2>&1 & echo $!`
  return (await shell(sandbox, script, { user })).trim()
}

/** Swaps a directory and a link for each other, until it is killed, and makes anew what the calls removed. */
const SWAP = `
import itertools, os
os.chdir('/srv/theirs')
for number in itertools.count():
  for name in ['link', 'real']:
    try:
      if os.path.lexists('race'): os.rename('race', f'old-{number}-{name}')
      if not os.path.lexists(name): os.symlink('/etc/kept', name) if name == 'link' else os.mkdir(name)
      os.rename(name, 'race'); os.rename('race', name)
    except OSError: pass
`

test('FS-30 a directory that becomes a link at the wrong moment leads root nowhere', async () => {
  await shell(sudo, SETUP, { user: 'root' })
  const racer = await inBackground(sudo, SWAP, 'daemon')
  const statuses = new Map<number, number>()
  const until = performance.now() + 3_000
  while (performance.now() < until) {
    const answers = await Promise.all([
      write(sudo, '/srv/theirs/race/new', 'bad'),
      call(sudo, 'MakeDir', { path: '/srv/theirs/race/made' }),
      call(sudo, 'Remove', { path: '/srv/theirs/race/file' }),
      call(sudo, 'Remove', { path: '/srv/theirs/race' }),
    ])
    for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  await shell(sudo, `kill -9 ${racer}`, { user: 'root' })
  assert.ok((statuses.get(403) ?? 0) > 0, `the control: links were met: ${[...statuses]}`)
  assert.ok((statuses.get(200) ?? 0) > 0, `the control: directories were met: ${[...statuses]}`)
  const seen = 'cat /etc/kept/file; stat -c %U /etc/kept /etc/kept/file; ls /etc/kept | grep -c "new\\|made"'
  assert.match(await shell(sudo, seen, { user: 'root' }), /^safe\nroot\nroot\n/)
})

test('FS-31 no file of the daemon in /proc is read, by any of its names', async () => {
  const threads = (await shell(sudo, 'ls /proc/1/task', { user: 'root' })).trim().split('\n')
  assert.ok(threads.length > 2, 'it has threads')
  const names = ['self', 'thread-self', '1', ...threads, ...threads.map((id) => `1/task/${id}`)]
  for (const sandbox of [plain, sudo])
    for (const name of names)
      for (const file of ['environ', 'mem', 'maps', 'cmdline', 'fd/3']) {
        const { status, text } = await read(sandbox, `/proc/${name}/${file}`)
        assert.ok([400, 403, 404].includes(status), `${name}/${file}: ${status} ${text.slice(0, 80)}`)
      }
  const pid = (await shell(sudo, 'MARK=mine sleep 60 > /dev/null 2>&1 & echo $!')).trim()
  await shell(sudo, 'sleep 0.2')
  assert.match((await read(sudo, `/proc/${pid}/environ`)).text, /MARK=mine/, 'the control: the user’s own is')
})

test('FS-32 at localhost:49983 inside, nothing of the daemon’s own can be asked for', async () => {
  const ask = (path: string, o = '', user = 'user'): Promise<string> =>
    shell(plain, `curl -s -o /dev/null -m 5 -w '%{http_code}' ${o} http://127.0.0.1:49983${path}`, { user })
  assert.deepEqual([await ask('/health'), await ask('/envs')], ['204', '200'], 'the control: it answers')
  for (const [path, o] of [
    ['/process.Process/Start', '-X POST -d {}'],
    ['/process.Process/List', '-X POST -H content-type:application/json -d {}'],
    ['/filesystem.Filesystem/Stat', '-X POST -d {}'],
    ['/files?path=/etc/passwd', ''],
    ['/files?path=/tmp/x', '-X POST -d x'],
    ['/agentpod/init', '-X PUT -d {}'],
    ['/agentpod/lease', '-X PUT -d {"remainingMs":1}'],
    ['/agentpod/usage', ''],
    ['/agentpod/tunnel?port=80', '-H connection:upgrade -H upgrade:agentpod-tunnel'],
    ['/agentpod/processes', ''],
    ['/metrics', ''],
    ['/logs', '-X POST -d {}'],
  ] as const)
    assert.equal(await ask(path, o), '404', path)
  assert.equal(
    await ask('/envs', '', 'daemon'),
    '403',
    'another user’s programs were not given the variables',
  )
  const other = await shell(sudo, 'curl -s -m 5 http://127.0.0.1:49983/health; echo $?')
  assert.equal(other, '7\n', 'in a sandbox that is not E2B’s nothing listens')
})

test('FS-32 programs that hold every connection keep nobody out for long', async () => {
  const hold = `
import socket, time
held = []
for i in range(200):
  try: held.append(socket.create_connection(('127.0.0.1', 49983), 2))
  except OSError: break
print(len(held)); time.sleep(30)`
  const holder = await inBackground(plain, hold, 'user')
  await new Promise((resolve) => setTimeout(resolve, 12_000))
  const { stdout } = await plain
    .exec('curl', { args: ['-s', '-m', '5', 'http://127.0.0.1:49983/envs'] })
    .wait()
  await shell(plain, `kill -9 ${holder}`)
  assert.match(stdout, /"MINE":"yes"/)
})
