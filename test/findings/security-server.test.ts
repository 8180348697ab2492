/**
 * Findings of the outside verification about the server: keys, connections, lost state, names and bytes from
 * inside.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { encodeFrame } from '../../src/util/stream/connect-frame.ts'
import { quietly } from '../support/host-view.ts'
import { rawRequest } from '../support/raw-http.ts'
import { type TcpAnswer, tcpRequest } from '../support/tcp.ts'
import { isAlive, ROOT, until, World } from '../support/world.ts'

describe('on a server with keys', () => {
  const world = new World()
  const local = world.client()
  let port = 0

  before(async () => {
    await local.list()
    port = (await local.listen()).port
  })
  after(() => world[Symbol.asyncDispose]())

  interface Tenant {
    readonly keyId: string
    readonly pod: AgentPod
    readonly box: Sandbox
    /** What E2B's SDKs and browsers have instead of the key. */
    readonly data: Readonly<Record<string, string>>
    readonly traffic: Readonly<Record<string, string>>
  }

  async function tenant(): Promise<Tenant> {
    const { id: keyId, secret: key } = await local.createKey({ scope: 'sandboxes' })
    const pod = new AgentPod({ url: `http://127.0.0.1:${port}`, key })
    const box = await pod.create()
    const { text } = await tcpRequest({
      port,
      method: 'POST',
      path: `/sandboxes/${box.id}/connect`,
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: '{"timeout":300}',
    })
    const tokens = JSON.parse(text) as { envdAccessToken: string; trafficAccessToken: string }
    const target = { 'e2b-sandbox-id': box.id }
    return {
      keyId,
      pod,
      box,
      data: { ...target, 'e2b-sandbox-port': '49983', 'x-access-token': tokens.envdAccessToken },
      traffic: {
        ...target,
        'e2b-sandbox-port': '3000',
        'e2b-traffic-access-token': tokens.trafficAccessToken,
      },
    }
  }

  const ask = (path: string, headers: Readonly<Record<string, string>>): Promise<TcpAnswer> =>
    tcpRequest({ port, path, headers })

  test('S5: CP-21 after a key is revoked its tokens open nothing, and what is open is cut', async () => {
    const [alice, bob] = [await tenant(), await tenant()]
    const server = `import socketserver
class H(socketserver.BaseRequestHandler):
  def handle(self):
    self.request.recv(4096)
    self.request.sendall(b'HTTP/1.1 200 OK\\r\\ncontent-type: text/plain\\r\\n\\r\\nhello\\n')
    while self.request.recv(1): pass
socketserver.ThreadingTCPServer(('127.0.0.1', 3000), H).serve_forever()`
    const open: { name: string; who: Tenant; socket: Socket }[] = []
    for (const who of [alice, bob]) {
      who.box
        .exec('/usr/bin/python3', { args: ['-c', server] })
        .wait()
        .catch(() => undefined)
      await until('the program inside listens', async () => {
        const tunnel = await who.box.dial(3000).catch(() => undefined)
        tunnel?.destroy()
        return tunnel !== undefined
      })
      await who.box.writeFile('/tmp/kept', Buffer.from('kept'))
      assert.equal(
        (await ask('/files?path=/tmp/kept', who.data)).text,
        'kept',
        'the control: the token reads',
      )
      open.push({ name: 'a preview', who, socket: await stream('/', who.traffic, /hello/) })
      const frame = encodeFrame({ process: { cmd: '/bin/sh', args: ['-c', 'echo ready; sleep 600'] } })
      const headers = { ...who.data, 'content-type': 'application/connect+json' }
      const process = await stream('/process.Process/Start', headers, /start/, frame)
      open.push({ name: 'output by a token', who, socket: process })
      open.push({ name: 'a tunnel', who, socket: (await who.box.dial(3000)) as Socket })
    }
    const told = alice.box.follow()[Symbol.asyncIterator]()
    await told.next()

    await local.revokeKey(alice.keyId)
    const mine = open.filter(({ who }) => who === alice)
    await Promise.all(
      mine.map(({ name, socket }) => until(`${name} is cut`, () => socket.destroyed || socket.readableEnded)),
    )
    await assert.rejects(async () => {
      for (;;) if ((await told.next()).done) return
    }, /key is not valid/)
    assert.equal((await ask('/files?path=/tmp/kept', alice.data)).status, 401)
    assert.equal((await ask('/', alice.traffic)).status, 403)

    assert.equal((await ask('/files?path=/tmp/kept', bob.data)).text, 'kept', 'the control: another key')
    for (const { name, who, socket } of open)
      assert.ok(
        who === alice || (!socket.destroyed && !socket.readableEnded),
        `${name} of another key goes on`,
      )
    for (const { socket } of open) socket.destroy()
    const list = await local.list()
    assert.ok(
      list.some(({ id }) => id === alice.box.id),
      'its sandbox lives on',
    )
    bob.pod.close()
    alice.pod.close()
  })

  test('S6: thousands of idle connections without a key keep nobody out', async () => {
    const { pod, box } = await tenant()
    const held = await box.dial(49983).catch(() => undefined)
    const flood: Socket[] = []
    const opens = async (): Promise<void> => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined)
      flood.push(socket)
      await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => undefined)
    }
    for (let i = 0; i < 45; i++) await Promise.all(Array.from({ length: 100 }, opens))
    assert.ok(flood.length > 4096, 'the control: more than the server takes')
    assert.ok(flood.filter(({ destroyed }) => !destroyed).length > 100, 'the control: many of them are open')
    for (let i = 0; i < 20; i++) {
      const fresh = await tcpRequest({ port, path: '/health', timeoutMs: 5000 })
      assert.equal(fresh.status, 204, 'a new client is answered')
      const { stdout } = await box.exec('/bin/echo', { args: ['hello'] }).wait()
      assert.equal(stdout, 'hello\n', 'a client with a key works')
      await Promise.all(Array.from({ length: 50 }, opens))
    }
    for (const socket of flood) socket.destroy()
    held?.destroy()
    pod.close()
  })

  /** A request whose answer does not end, open until the server cuts it. */
  function stream(
    path: string,
    headers: Readonly<Record<string, string>>,
    until: RegExp,
    body?: Buffer,
  ): Promise<Socket> {
    const socket = connect(port, '127.0.0.1')
    const lines = Object.entries({ host: `localhost:${port}`, ...headers }).map(([k, v]) => `${k}: ${v}\r\n`)
    const head = `${body ? 'POST' : 'GET'} ${path} HTTP/1.1\r\n${lines.join('')}${body ? `content-length: ${body.length}\r\n` : ''}\r\n`
    socket.write(head)
    if (body) socket.write(body)
    return new Promise((resolve, reject) => {
      let text = ''
      socket.on('error', reject)
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
        if (until.test(text)) resolve(socket)
      })
      socket.once('close', () => reject(new Error(`cut: ${text}`)))
    })
  }
})

describe('S8: after the state database is lost', () => {
  /** A server that is gone, with a sandbox that runs on. */
  async function orphaned(world: World): Promise<void> {
    await world.ok(['create', '--name', 'orphan'])
    await world.ok(['server', 'stop'])
    assert.equal(running(world.home).length, 1, 'the control: the sandbox runs without a server')
  }
  /** The sockets of sandboxes that run; blank shells have theirs too. */
  /** The first processes of the sandboxes. */
  const running = (home: string): number[] =>
    readdirSync(join(home, 'sandboxes'))
      .map((id) => quietly(() => readFileSync(join(home, 'sandboxes', id, 'handle.json'), 'utf8')))
      .map((handle) => (handle ? (JSON.parse(handle) as { pid: number }).pid : 0))
      .filter((pid) => pid > 0 && isAlive(pid))

  const LOSSES: Readonly<Record<string, { lose: (file: string) => void; said: RegExp }>> = {
    damaged: {
      lose: (file) => writeFileSync(file, 'no database at all'),
      said: /is damaged; it was moved to/,
    },
    gone: { lose: (file) => rmSync(file), said: /state\.db is missing/ },
  }
  for (const [how, { lose, said }] of Object.entries(LOSSES)) {
    test(`S8: a database that is ${how} is reported once, then its sandboxes are removed`, async () => {
      await using world = new World()
      await orphaned(world)
      for (const end of ['-wal', '-shm']) rmSync(join(world.home, `state.db${end}`), { force: true })
      lose(join(world.home, 'state.db'))
      const first = await world.cli(['ls'])
      assert.notEqual(first.code, 0)
      assert.match(first.stderr, said)
      assert.match(first.stderr, /removes every sandbox and snapshot of the lost one/)
      assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
      await until('the sandbox is removed', () => running(world.home).length === 0)
      await world.ok(['create', '--name', 'orphan'])
    })
  }

  test('S8: reset works at once with a damaged database', async () => {
    const world = new World()
    await orphaned(world)
    const pids = running(world.home)
    writeFileSync(join(world.home, 'state.db'), 'no database at all')
    await world.ok(['reset', '--yes'], { cwd: '/' })
    assert.equal(existsSync(world.home), false)
    assert.deepEqual(pids.filter(isAlive), [])
  })
})

test('S12: reset works with a damaged key of secrets', async () => {
  const world = new World()
  await world.ok(['secret', 'set', 'TOKEN', '--host', 'example.com'], { input: 'a value of some length' })
  await world.ok(['create'])
  await world.ok(['server', 'stop'])
  writeFileSync(join(world.home, 'secrets.key'), 'short')
  assert.match((await world.cli(['ls'])).stderr, /is not an AgentPod key/, 'the control')
  await world.ok(['reset', '--yes'], { cwd: '/' })
  assert.equal(existsSync(world.home), false)
})

test('S10: CP-22 SIGUSR1 opens no inspector in the server, the egress process or a command', async () => {
  await using world = new World()
  await world.ok(['create', '--name', 'box', '--allow', 'example.com'])
  const command = world.start(['exec', 'box', '--', 'sleep', '60'])
  command.on('error', () => undefined)
  const control = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'])
  await until('the command runs', async () =>
    /sleep 60/.test((await world.cli(['exec', 'box', '--', 'ps', 'ax'])).stdout),
  )
  const egress = childrenOf(world.serverPid).filter((pid) => commandOf(pid).includes('egress'))
  assert.equal(egress.length, 1)
  const ours = [world.serverPid, ...egress, command.pid ?? 0]
  for (const pid of [...ours, control.pid ?? 0]) process.kill(pid, 'SIGUSR1')
  await until('the control: Node without the option opens one', () => hasInspector(control.pid ?? 0))
  for (const pid of ours) {
    assert.ok(isAlive(pid), commandOf(pid))
    assert.ok(!hasInspector(pid), commandOf(pid))
  }
  control.kill('SIGKILL')
  command.kill('SIGKILL')
})

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

/** The inspector has a thread of its own. */
function hasInspector(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).some((task) =>
    /^InspectorIo/.test(readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8')),
  )
}

describe('bytes from inside', () => {
  const world = new World()
  before(() => world.ok(['create', '--name', 'box']))
  after(() => world[Symbol.asyncDispose]())
  const inside = (script: string): Promise<string> =>
    world.ok(['exec', 'box', '--', '/usr/bin/python3', '-c', `import os\n${script}`])

  test('S9: names that are not UTF-8 are left out and reported, both ways, and the count is true', async () => {
    await inside(`os.makedirs('/tmp/odd')
for name in (b'a\\xff', b'a\\xfe', b'plain'): open(b'/tmp/odd/' + name, 'w').write('x')`)
    const target = join(world.directory(), 'out')
    const out = JSON.parse(await world.ok(['cp', '--json', 'box:/tmp/odd', target])) as Copied
    assert.deepEqual(readdirSync(target), ['plain'])
    assert.equal(out.files, 1)
    assert.deepEqual(
      out.skipped.map(({ why }) => why),
      ['its name is not UTF-8', 'its name is not UTF-8'],
    )
    const source = world.directory()
    for (const name of ['a\xff', 'plain'])
      writeFileSync(Buffer.concat([Buffer.from(`${source}/`), Buffer.from(name, 'latin1')]), 'x')
    const into = JSON.parse(await world.ok(['cp', '--json', source, 'box:/tmp/in'])) as Copied
    assert.equal(into.files, 1)
    assert.equal(into.skipped[0]?.why, 'its name is not UTF-8')
    assert.equal((await inside(`print(len(os.listdir('/tmp/in')))`)).trim(), '1')
  })

  test('S12: cp of directories that are nested too deep copies the rest and says what is missing', async () => {
    await inside(`os.makedirs('/tmp/tree/deep')
open('/tmp/tree/kept', 'w').write('x')
os.chdir('/tmp/tree/deep')
for _ in range(20000):
  os.mkdir('d'); os.chdir('d')`)
    const target = join(world.directory(), 'out')
    const copied = JSON.parse(await world.ok(['cp', '--json', 'box:/tmp/tree', target])) as Copied
    assert.equal(readFileSync(join(target, 'kept'), 'utf8'), 'x')
    assert.match(copied.skipped[0]?.why ?? '', /deeper than 256 directories/)
    await world.ok(['cp', 'box:/etc/shadow', target]).then(assert.fail, () => undefined)
    const etc = await world.cli(['cp', 'box:/etc', join(world.directory(), 'etc')])
    assert.equal(etc.code, 0, 'a file that may not be read is left out of a directory')
    assert.match(etc.stderr, /left out shadow: this user may not read it/)
  })

  test('S11: output of a program inside is not obeyed by a terminal, and JSON has no hidden character', async () => {
    const said = '\u001b]52;c;ZXZpbA==\u0007\u009b5n\u001b[31mred\u001b[0m'
    await inside(`print('\\x1b]52;c;ZXZpbA==\\x07\\u009b5n\\x1b[31mred\\x1b[0m')`)
    assert.equal(await world.ok(['logs', 'box']), `${said}\n`, 'the control: a pipe gets every byte')
    const shown = await onTerminal(world, ['logs', 'box'])
    assert.ok(shown.includes('\\u001b]52;c;ZXZpbA==\\u0007\\u009b5n\u001b[31mred'), JSON.stringify(shown))
    for (const obeyed of ['\u001b]52', '\u0007', '\u009b']) assert.ok(!shown.includes(obeyed))
    const asked = await onTerminal(world, ['logs', '--raw', 'box'])
    assert.ok(asked.includes('\u001b]52;'), 'asked for, it is as it was')
    assert.match(
      await onTerminal(world, ['exec', '-T', 'box', '--', 'printf', '\\033]0;title\\007']),
      /\\u001b\]0/,
    )

    await inside(`os.makedirs('/tmp/names'); os.symlink('/etc/x', '/tmp/names/a\\u009b\\u202eb')`)
    const json = await world.ok(['cp', '--json', 'box:/tmp/names', join(world.directory(), 'names')])
    assert.match(json, /^[\n -~]*$/)
    assert.equal((JSON.parse(json) as Copied).skipped[0]?.path, 'a\u009b\u202eb')
  })

  test('S12: a wrong digest of the files of a build is a mistake of the client', async () => {
    const answer = await rawRequest({
      socket: join(world.home, 'run', 'api.sock'),
      method: 'POST',
      path: `/v1/builds/files/${'0'.repeat(64)}`,
      body: Buffer.from('something else'),
    })
    assert.equal(answer.status, 400, answer.body.toString())
  })
})

interface Copied {
  readonly files: number
  readonly skipped: readonly { readonly path: string; readonly why: string }[]
}

/** What a terminal is sent: `script` gives the command one. */
async function onTerminal(world: World, args: readonly string[]): Promise<string> {
  const words = [join(ROOT, 'agentpod'), ...args].map((word) => `'${word}'`).join(' ')
  const child = spawn('script', ['-qec', words, '/dev/null'], {
    env: { ...process.env, AGENTPOD_HOME: world.home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const chunk of child.stdout) text += String(chunk)
  return text
}
