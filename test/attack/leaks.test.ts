/** Group LK: nothing of the host shows inside, and no secret lies about outside. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { assertNoToken, Canary, findToken, newToken, spellings } from '../support/canary.ts'
import { createWithSudo, differsOn, HAS_HOST_BASE, ON_DOCKER } from '../support/chosen-provider.ts'
import { quietly } from '../support/host-view.ts'
import { inside, outside, shell } from '../support/probe.ts'
import { ROOT, World } from '../support/world.ts'

const serverToken = newToken()
const callerToken = newToken()
const world = new World({ env: { AGENTPOD_ATTACK_CANARY: serverToken } })
let canary: Canary
let plain: Sandbox
let sudo: Sandbox

before(async () => {
  canary = await Canary.plant()
  const client = world.client()
  plain = await client.create({})
  sudo = await createWithSudo(client)
})

after(async () => {
  await canary[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
})

const NONE_SHOWN = 'its bases show no directory of the host'
const ONLY_HOST_BASE = differsOn({ qemu: NONE_SHOWN, docker: NONE_SHOWN })
/** On Docker podd listens on an abstract socket of the container, which serves nobody without a token. */
const OWN_SOCKETS = ON_DOCKER ? ['@agentpod'] : []

const attackers = (): readonly (readonly [Sandbox, string])[] => [
  [plain, 'user'],
  [plain, 'root'],
  [sudo, 'root'],
]

test('LK-01 the server holds the canary in its environment, and no program inside reads it', async () => {
  const environ = readFileSync(`/proc/${world.serverPid}/environ`, 'utf8')
  assert.ok(findToken(environ, serverToken), 'the control: it is there')
  const program = `
found = [json.dumps(dict(os.environ))]
for p in os.listdir('/proc'):
  if p.isdigit():
    for name in ('environ', 'cmdline', 'mounts', 'status'): found.append(read('/proc/%s/%s' % (p, name)))
    for t in os.listdir('/proc/%s/task' % p) if os.path.isdir('/proc/%s/task' % p) else []: found.append(read('/proc/%s/task/%s/environ' % (p, t)))
tell(found)`
  for (const [sandbox, user] of attackers())
    assertNoToken(
      (await inside<string[]>(sandbox, program, { user })).join('\n'),
      serverToken,
      `what ${user} reads`,
    )
})

test('LK-01 the environment of a command is an allow-list', async () => {
  const known = ['HOME', 'LANG', 'LOGNAME', 'PATH', 'PWD', 'SHELL', 'USER']
  const tools = [
    'JAVA_HOME',
    'GOROOT',
    'DOTNET_ROOT',
    'RUSTUP_HOME',
    'PYENV_ROOT',
    'RBENV_ROOT',
    'VOLTA_HOME',
  ]
  // The proxy and the certificates of egress: the same in every sandbox.
  const wayOut = [
    ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
    ...[
      'AWS_CA_BUNDLE',
      'CARGO_HTTP_CAINFO',
      'CURL_CA_BUNDLE',
      'DENO_CERT',
      'GIT_SSL_CAINFO',
      'HTTPLIB2_CA_CERTS',
    ],
    ...['GRPC_DEFAULT_SSL_ROOTS_FILE_PATH', 'NIX_SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS', 'PIP_CERT'],
    ...['REQUESTS_CA_BUNDLE', 'SSL_CERT_FILE'],
  ]
  for (const [sandbox, user] of attackers()) {
    const text = await shell(sandbox, 'env', { user })
    const names = text
      .trimEnd()
      .split('\n')
      .map((line) => line.split('=')[0] ?? '')
    assert.deepEqual(
      names.filter((name) => ![...known, ...tools, ...wayOut, '_', 'SHLVL'].includes(name)),
      [],
      user,
    )
    for (const line of text.split('\n').filter((one) => wayOut.includes(one.split('=')[0] ?? '')))
      assert.match(
        line,
        /=(?:http:\/\/127\.0\.0\.1:61080|\/run\/agentpod\/ca-bundle\.pem|localhost,127\.0\.0\.1,::1)$/,
      )
  }
  const given = await shell(plain, 'env', { env: { GIVEN: 'yes' } })
  assert.match(given, /^GIVEN=yes$/m, 'the control: what is given arrives')
})

test('LK-01 a client that has the canary in its environment does not bring it in', async () => {
  const out = await world.ok(['exec', plain.id, '--', 'env'], { env: { CALLER_CANARY: callerToken } })
  assertNoToken(out, callerToken, 'the environment inside')
  const passed = await world.ok(['exec', '-e', 'CALLER_CANARY', plain.id, '--', 'env'], {
    env: { CALLER_CANARY: callerToken },
  })
  assert.ok(findToken(passed, callerToken), 'the control: asked for, it is passed')
})

test('LK-02 a command has descriptors 0, 1 and 2 and no other, with pipes, a terminal or standard input', async () => {
  const program = `
import fcntl
def is_open(n):
  try: fcntl.fcntl(n, fcntl.F_GETFD); return True
  except OSError: return False
tell([n for n in range(0, 4096) if is_open(n)])`
  for (const [sandbox, user] of attackers()) {
    assert.deepEqual(await inside<number[]>(sandbox, program, { user }), [0, 1, 2], user)
    const terminal = await inside<number[]>(sandbox, program, { user, terminal: { cols: 80, rows: 24 } })
    assert.deepEqual(terminal, [0, 1, 2], `${user} with a terminal`)
  }
})

test('LK-02 a descriptor that the server is started with goes no further', async () => {
  const leaky = new World()
  try {
    // The shell opens the canary as descriptors 9 and 251 and does not mark them close-on-exec, so every
    // program it starts inherits them.
    const script = `exec 9<"$1" 251<"$1"; shift; exec "$@"`
    const own = execFileSync('bash', ['-c', script, 'sh', canary.file, 'cat', '/proc/self/fd/9'], {
      encoding: 'utf8',
    })
    assert.equal(own, canary.token, 'the control: it is inherited')
    await leaky.ok(['ls'], { program: ['bash', '-c', script, 'sh', canary.file, join(ROOT, 'agentpod')] })
    await using sandbox = await leaky.client().create({})
    const found = await inside<string[]>(
      sandbox,
      `tell([read('/proc/%s/fd/%s' % (p, n)) for p in ('self', '1') for n in (9, 251)] + [os.readlink('/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + f)])`,
      { user: 'root' },
    )
    assertNoToken(found.join('\n'), canary.token, 'a descriptor inside')
    assert.ok(!found.join('\n').includes(canary.directory), found.join('\n'))
  } finally {
    await leaky[Symbol.asyncDispose]()
  }
})

const connectTo = (path: string): string => `
import socket
def reach(address):
  s = socket.socket(socket.AF_UNIX)
  s.settimeout(5)
  s.connect(address)
  return s.recv(100)
def dial(address): return attempt(lambda: reach(address))
tell(dial(${path}))`

test('LK-03 a unix socket of the host cannot be connected to', async () => {
  const program = connectTo(JSON.stringify(canary.socket))
  assert.equal(await outside(program), 'ok', 'the control')
  assert.equal(canary.hits.pop(), 'unix')
  for (const [sandbox, user] of attackers())
    assert.equal(await inside(sandbox, program, { user }), 'ENOENT', user)
  assert.deepEqual(canary.hits, [])
})

test(
  'LK-03 a socket in a directory that the host base shows cannot be connected to',
  ONLY_HOST_BASE,
  async () => {
    await using shown = await Canary.plant('/opt')
    chmodSync(shown.directory, 0o755)
    chmodSync(shown.socket, 0o777)
    const program = connectTo(JSON.stringify(shown.socket))
    assert.equal(await outside(program), 'ok', 'the control')
    shown.hits.length = 0
    for (const [sandbox, user] of attackers()) {
      assert.match(await shell(sandbox, `ls -l ${shown.socket}`, { user }), /^s/, 'the control: it shows')
      assert.notEqual(await inside(sandbox, program, { user }), 'ok', user)
    }
    assert.deepEqual(shown.hits, [])
  },
)

test('LK-03 a FIFO of the host that shows inside carries no byte out', ONLY_HOST_BASE, async () => {
  const directory = mkdtempSync('/opt/agentpod-canary-')
  try {
    chmodSync(directory, 0o755)
    const fifo = join(directory, 'fifo')
    execFileSync('mkfifo', ['-m', '666', fifo])
    const write = `
fd = os.open(${JSON.stringify(fifo)}, os.O_WRONLY | os.O_NONBLOCK)
tell(attempt(lambda: os.write(fd, b'escaped')))`
    const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK)
    const buffer = Buffer.alloc(100)
    const readAll = (): string => buffer.toString('utf8', 0, quietly(() => readSync(reader, buffer)) ?? 0)
    try {
      for (const [sandbox, user] of attackers()) {
        // Nobody reads at the other end that shows inside, so the open itself may fail.
        await inside<string>(sandbox, write, { user }).catch(() => undefined)
        await inside<string>(sandbox, write.replace('O_WRONLY', 'O_RDWR'), { user }).catch(() => undefined)
        assert.equal(readAll(), '', user)
      }
      assert.equal(await outside<string>(write), 'ok')
      assert.equal(readAll(), 'escaped', 'the control: from outside it arrives')
    } finally {
      closeSync(reader)
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('LK-03 no socket of an engine, agent, bus or of AgentPod itself shows', async () => {
  const program = `
import stat
found = []
for top in TOPS:
  for at, dirs, names in os.walk(top):
    dirs[:] = [d for d in dirs if d not in ('.pyenv', '.rustup', '.cargo')]
    for n in names:
      try:
        if stat.S_ISSOCK(os.lstat(os.path.join(at, n)).st_mode): found.append(os.path.join(at, n))
      except OSError: pass
tell(found)`
  const control = await outside<string[]>(`TOPS = [${JSON.stringify(canary.directory)}]\n${program}`)
  assert.deepEqual(control, [canary.socket], 'the control')
  const tops = `TOPS = ('/run', '/var', '/tmp', '/home', '/root', '/srv', '/etc', '/dev', '/mnt', '/media')\n`
  for (const [sandbox, user] of attackers())
    assert.deepEqual(await inside(sandbox, tops + program, { user }), [], user)
})

test('LK-04 an abstract socket of the host is not listed and refuses', async () => {
  const program = connectTo(`'\\0${canary.abstract}'`)
  assert.equal(await outside(program), 'ok', 'the control')
  assert.match(
    readFileSync('/proc/net/unix', 'utf8'),
    new RegExp(canary.abstract),
    'the control: it is listed',
  )
  canary.hits.length = 0
  for (const [sandbox, user] of attackers()) {
    assert.equal(await inside(sandbox, program, { user }), 'ECONNREFUSED', user)
    const listed = await shell(sandbox, 'cat /proc/net/unix', { user })
    assert.deepEqual([...new Set(listed.match(/@\S*/g))], OWN_SOCKETS, listed)
    assert.ok(!listed.includes(world.home), listed)
  }
  assert.deepEqual(canary.hits, [])
})

test('LK-04 the loopback of the host is not the loopback inside', async () => {
  const program = `
import socket
def dial(): return socket.create_connection(('127.0.0.1', ${canary.port}), 5).recv(100)
tell(attempt(dial))`
  assert.equal(await outside(program), 'ok', 'the control')
  canary.hits.length = 0
  for (const [sandbox, user] of attackers())
    assert.equal(await inside(sandbox, program, { user }), 'ECONNREFUSED', user)
  assert.deepEqual(canary.hits, [])
})

test('LK-04 the server’s and podd’s own sockets cannot be reached from inside', async () => {
  const sockets = [
    join(world.home, 'run', 'api.sock'),
    world.docker?.socket ?? join(world.home, 'run', 'podhost.sock'),
  ]
  for (const path of sockets) {
    await new Promise<void>((resolve, reject) => {
      const socket = connect(path, () => {
        socket.destroy()
        resolve()
      }).once('error', reject)
    })
    for (const [sandbox, user] of attackers())
      assert.equal(await inside(sandbox, connectTo(JSON.stringify(path)), { user }), 'ENOENT', path)
  }
  // podd's listener has a path only outside. Inside, the kernel lists it without one, so there is nothing to
  // connect to.
  for (const [sandbox, user] of attackers()) {
    const listed = (await shell(sandbox, 'cat /proc/net/unix', { user })).trimEnd().split('\n').slice(1)
    assert.deepEqual(
      [...new Set(listed.map((line) => line.trim().split(/\s+/)[7]).filter((path) => path !== undefined))],
      OWN_SOCKETS,
      `${user} reads a path`,
    )
  }
})

describe('LK-05 the host base shows tools and no secrets', () => {
  const homes = [
    '.ssh',
    '.aws',
    '.netrc',
    '.npmrc',
    '.docker',
    '.kube',
    '.gnupg',
    '.config',
    '.git-credentials',
    '.bash_history',
  ]
  const more = [
    '.cargo/credentials.toml',
    '.cargo/credentials',
    '.pypirc',
    '.azure',
    '.claude',
    '.codex',
    '.mozilla',
    '.local/share/keyrings',
  ]
  const etc = [
    'ssh',
    'shadow-',
    'ssl/private',
    'sudoers',
    'gitconfig',
    'apt',
    'docker',
    'kubernetes',
    'cron.d',
    'fstab',
    'krb5.keytab',
  ]

  test('LK-05 none of the usual hiding places exists', async () => {
    const home = process.env['HOME'] ?? '/root'
    const paths = [
      ...[home, '/root', '/home/user'].flatMap((top) => [...homes, ...more].map((name) => join(top, name))),
      // A base of its own has files of its own there.
      ...(HAS_HOST_BASE
        ? [...etc.map((name) => join('/etc', name)), '/boot', '/lost+found', '/var/lib/dpkg']
        : []),
      '/var/lib/docker',
      '/run/secrets',
      '/var/run/secrets',
    ]
    const program = `tell([p for p in ${JSON.stringify(paths)} if os.path.lexists(p)])`
    assert.ok((await outside<string[]>(program)).length > 3, 'the control: the host has some')
    for (const [sandbox, user] of attackers())
      assert.deepEqual(await inside(sandbox, program, { user }), [], user)
  })

  test('LK-05 no password hash, host name or machine id of the host is inside', async () => {
    const program = `tell([read('/etc/shadow'), read('/etc/hostname'), read('/etc/machine-id'), os.uname().nodename, read('/proc/sys/kernel/random/boot_id'), read('/etc/hosts')])`
    const host = await outside<string[]>(program)
    for (const [sandbox, user] of attackers()) {
      const found = await inside<string[]>(sandbox, program, { user })
      assert.ok(!/\$[0-9a-z]+\$/.test(found[0] ?? ''), 'a hash')
      // A container of Docker shows the boot id of its kernel, which is the host's.
      for (const i of ON_DOCKER ? [1, 2, 3] : [1, 2, 3, 4]) {
        const own = host[i]?.trim() ?? ''
        if (own !== '' && own !== 'ENOENT') assert.notEqual(found[i]?.trim(), own, `${user}: item ${i}`)
      }
    }
  })
})

describe('LK-05 a private file of the host', ONLY_HOST_BASE, () => {
  const OWNERS = { root: 0, 'the first user': 1000 }
  const PLACES = ['/opt', '/usr/local/share'].map((place) => mkdtempSync(join(place, 'agentpod-canary-')))
  const other = new World()
  let sandbox: Sandbox
  before(async () => {
    for (const directory of PLACES) {
      chmodSync(directory, 0o755)
      writeFileSync(join(directory, 'public'), 'public', { mode: 0o644 })
      mkdirSync(join(directory, 'closed'), { mode: 0o700 })
      writeFileSync(join(directory, 'closed', 'inner'), canary.token, { mode: 0o644 })
      for (const [name, uid] of Object.entries(OWNERS)) {
        const file = join(directory, name)
        writeFileSync(file, canary.token, { mode: 0o600 })
        chownSync(file, uid, uid)
      }
    }
    // podhost looks for private files when it starts, unless another podhost of the machine did so in the
    // last minute.
    rmSync('/run/agentpod/private-files', { recursive: true, force: true })
    sandbox = await other.client().create({ environment: { sudo: true } })
  })
  after(async () => {
    for (const directory of PLACES) rmSync(directory, { recursive: true })
    await other[Symbol.asyncDispose]()
  })

  for (const directory of PLACES) {
    const shown = directory.replace(/-[^-]*$/, '')
    for (const name of [...Object.keys(OWNERS), 'closed/inner']) {
      test(`LK-05 ${shown}/${name} is readable to nobody inside, and what all may read is to all`, async () => {
        for (const user of ['user', 'root']) {
          assert.equal(await shell(sandbox, `cat ${directory}/public`, { user }), 'public', 'the control')
          assertNoToken(
            await shell(sandbox, `cat '${directory}/${name}' 2>&1`, { user }),
            canary.token,
            `what ${user} reads`,
          )
        }
      })
    }
  }
})

test('LK-08 a variable passed by name is in no command line of the host while it is used', async () => {
  const token = newToken()
  const seen: string[] = []
  const watch = (): void => {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      seen.push(quietly(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')) ?? '')
  }
  const timer = setInterval(watch, 5)
  try {
    const env = { LK08: token }
    const id = (await world.ok(['create', '-e', 'LK08'], { env })).trim()
    watch()
    assert.ok(findToken(await world.ok(['exec', id, '--', 'env']), token), 'the control: it arrives')
    await world.ok(['exec', '-e', 'LK08', id, '--', 'sh', '-c', 'sleep 0.3'], { env })
    await world.ok(['destroy', id])
  } finally {
    clearInterval(timer)
  }
  assert.ok(seen.length > 100, 'the control: command lines were read')
  assertNoToken(seen.join('\n'), token, 'a command line')
  assert.ok(findToken(`-e LK08=${token}`, token), 'the control: it would have been found')
})

/** Blank shells come and go meanwhile, and what went is not kept. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Every file below the state directory but the sandboxes' own, and the events of all sandboxes. */
async function everythingKept(): Promise<Map<string, string>> {
  const kept = new Map<string, string>()
  const walk = (directory: string): void => {
    for (const entry of unlessGone(() => readdirSync(directory, { withFileTypes: true })) ?? []) {
      const path = join(directory, entry.name)
      if (entry.isDirectory() && !['sandboxes', 'snapshots', 'base', 'layers', 'bin'].includes(entry.name))
        walk(path)
      else if (entry.isFile() && entry.name !== 'pool.img') {
        const text = unlessGone(() => readFileSync(path, 'latin1'))
        if (text !== undefined) kept.set(path, text)
      }
    }
  }
  walk(world.home)
  const client = world.client()
  for (const { id } of await client.list({ all: true })) {
    const sandbox = await client.get(id)
    kept.set(`events of ${id}`, JSON.stringify([sandbox.info, await sandbox.events()]))
  }
  return kept
}

test('LK-16 the server’s environment and passed secrets are in no log, event, error or process list', async () => {
  const passed = newToken()
  const client = world.client()
  const sandbox = await client.create({ environment: { variables: { SECRET: passed } }, labels: { a: 'b' } })
  assert.ok(findToken(await shell(sandbox, 'env'), passed), 'the control: it is inside')
  const errors: string[] = []
  const failing = (work: Promise<unknown>): Promise<void> =>
    work.then(
      () => undefined,
      (error: unknown) => void errors.push(JSON.stringify(error, Object.getOwnPropertyNames(error))),
    )
  await shell(sandbox, `echo "$SECRET" >&2; no-such-program "$SECRET"`, { env: { MORE: passed } })
  await failing(sandbox.exec('no-such-program', { env: { MORE: passed } }).wait())
  await failing(sandbox.exec('true', { env: { 'BAD=NAME': passed } }).wait())
  await failing(sandbox.exec('true', { env: { MORE: `${passed}\0` } }).wait())
  await failing(client.create({ environment: { variables: { SECRET: `${passed}\0` } } }))
  await failing(client.create({ environment: { variables: { 'BAD NAME': passed } } }))
  await sandbox.destroy()
  assert.ok(errors.length >= 4, 'the control: errors were made')
  for (const text of errors) assertNoToken(text, passed, `an error: ${text}`)
  const kept = await everythingKept()
  assert.ok(kept.size > 5, 'the control: there is something to read')
  for (const [where, text] of kept) {
    assertNoToken(text, serverToken, where)
    if (!/state\.db/.test(where)) assertNoToken(text, passed, where)
  }
  const listed = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })
  assertNoToken(listed, serverToken, 'ps')
  assertNoToken(listed, passed, 'ps')
})

test('LK-16 the files of the state directory are for its owner alone', () => {
  const ofPodhost = ON_DOCKER ? [] : ['sandboxes', 'snapshots', 'run/s']
  for (const name of ['', 'run', 'logs', 'tmp', ...ofPodhost]) {
    const { mode } = statSync(join(world.home, name))
    assert.equal(mode & 0o077, 0, `${name || 'the state directory'} has mode ${(mode & 0o777).toString(8)}`)
  }
  for (const name of readdirSync(world.home).filter((file) => /\.(db|img)$/.test(file)))
    assert.equal(statSync(join(world.home, name)).mode & 0o077, 0, name)
})

test('LK-16 the search finds every spelling of a canary', () => {
  const token = newToken()
  const wrapped = `before${token}after`
  assert.ok(findToken(wrapped, token))
  for (const shift of [0, 1, 2])
    assert.ok(
      findToken(Buffer.from(`${'y'.repeat(shift)}${token}z`).toString('base64'), token),
      `base64 at ${shift}`,
    )
  assert.ok(findToken(Buffer.from(wrapped).toString('hex'), token))
  assert.ok(findToken(`?q=${encodeURIComponent(wrapped)}`, token))
  assert.equal(spellings(token).length, 6)
  assert.equal(findToken('nothing', token), undefined)
})
