/** Keys, contexts, ports and completions on the command line. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { after, before, test } from 'node:test'
import { until, World } from '../support/world.ts'

const world = new World()
let url = ''
before(async () => {
  await world.ok(['create', '--name', 'web'])
  const page =
    'import http.server as h;h.HTTPServer(("127.0.0.1",3000),h.SimpleHTTPRequestHandler).serve_forever()'
  await world.ok([
    'exec',
    'web',
    '--',
    'sh',
    '-c',
    `echo hello > ~/index.html; cd ~; setsid python3 -c '${page}' >/dev/null 2>&1 &`,
  ])
  const { port } = await world.client().listen()
  url = `http://127.0.0.1:${port}`
})
after(() => world[Symbol.asyncDispose]())

const curl = (...args: string[]): string => execFileSync('curl', ['-s', ...args], { encoding: 'utf8' })

test('key create --quiet prints the key alone; revoke ends it', async () => {
  const secret = (await world.ok(['key', 'create', '--quiet', '--name', 'ci'])).trim()
  assert.match(secret, /^e2b_[0-9a-f]{40}$/)
  const env = { AGENTPOD_URL: url, AGENTPOD_API_KEY: secret }
  assert.equal(await world.ok(['ls', '--json'], { env }), '[]\n')
  const [key] = (
    JSON.parse(await world.ok(['key', 'ls', '--json'])) as { id: string; name: string }[]
  ).filter(({ name }) => name === 'ci')
  await world.ok(['key', 'revoke', key?.id ?? ''])
  const { code, stderr } = await world.cli(['ls'], { env })
  assert.equal(code, 3)
  assert.match(stderr, /not valid/)
})

test('a context is a remote server; its key is read from stdin and is for the owner alone', async () => {
  const input = await world.ok(['key', 'create', '--quiet'])
  await world.ok(['context', 'add', 'lab', url], { input })
  assert.equal(statSync(join(world.home, 'contexts.json')).mode & 0o777, 0o600)
  await world.ok(['create', '--name', 'far'])
  assert.match(await world.ok(['exec', 'far', 'echo', 'from afar']), /from afar/)
  await world.ok(['context', 'use', 'local'])
  const owners = JSON.parse(await world.ok(['ls', '--json'])) as { name: string }[]
  assert.deepEqual(owners.map(({ name }) => name).sort(), ['far', 'web'])
  await world.ok(['context', 'rm', 'lab'])
  await world.ok(['destroy', 'far'])
})

test('a private port opens for a browser by an address that works once', async () => {
  await until('the page is up', () => curl('-o', '/dev/null', '-w', '%{http_code}', address()) === '403')
  const { openUrl } = JSON.parse(await world.ok(['port', 'web', '3000', '--json'])) as { openUrl: string }
  const jar = join(world.directory(), 'jar')
  await until(
    'it answers',
    () =>
      curl('-b', jar, '-c', jar, '-L', openUrl).includes('hello') ||
      curl('-b', jar, address()).includes('hello'),
  )
  assert.equal(curl('-o', '/dev/null', '-w', '%{http_code}', openUrl), '403', 'the second time')
  assert.equal(curl('-o', '/dev/null', '-w', '%{http_code}', address()), '403', 'without the cookie')

  function address(): string {
    return `http://3000-${id()}.localhost:${new URL(url).port}/`
  }
})

function id(): string {
  const listed = JSON.parse(
    execFileSync(join(import.meta.dirname, '..', '..', 'agentpod'), ['ls', '--json'], {
      env: { ...process.env, AGENTPOD_HOME: world.home },
      encoding: 'utf8',
    }),
  ) as { id: string; name: string }[]
  return listed.find(({ name }) => name === 'web')?.id ?? ''
}

test('a public port needs no key, and a closed one says so', async () => {
  await using open = await world.client().create({ ports: { public: true } })
  const at = (port: number): string => `http://${port}-${open.id}.localhost:${new URL(url).port}/`
  assert.match(curl(at(9999)), /port is not open/)
  assert.match(curl('-H', 'Accept: text/html', at(9999)), /<h1>The sandbox is running but port is not open/)
})

/** A WebSocket server in what Python has: it shakes hands and sends each message back in capitals. */
const ECHO = `
import base64, hashlib, socket
server = socket.create_server(('127.0.0.1', 4000)); print('up', flush=True)
client = server.accept()[0]; head = b''
while b'\\r\\n\\r\\n' not in head: head += client.recv(4096)
lines = dict(line.split(': ', 1) for line in head.decode().split('\\r\\n')[1:] if ': ' in line)
key = {k.lower(): v for k, v in lines.items()}['sec-websocket-key']
accept = base64.b64encode(hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()).decode()
client.sendall(f'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: {accept}\\r\\n\\r\\n'.encode())
while data := client.recv(4096):
  length = data[1] & 127; mask = data[2:6]
  text = bytes(b ^ mask[i % 4] for i, b in enumerate(data[6:6 + length])).upper()
  client.sendall(bytes([0x81, len(text)]) + text)
`

test('a WebSocket reaches a program inside', async () => {
  await using open = await world.client().create({ ports: { public: true } })
  const output = open.exec('python3', { args: ['-c', ECHO] }).output()
  await output.next()
  const host = `4000-${open.id}.localhost:${new URL(url).port}`
  const socket = await new Promise<Duplex>((resolve, reject) => {
    const headers = {
      host,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    request(url, { headers })
      .once('upgrade', (response, stream) => {
        assert.equal(response.headers['sec-websocket-accept'], 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=')
        resolve(stream)
      })
      .once('response', (response) => reject(new Error(`status ${response.statusCode}`)))
      .once('error', reject)
      .end()
  })
  // A masked text frame, as a browser sends one; the mask is all zeros.
  socket.write(Buffer.from([0x81, 0x85, 0, 0, 0, 0, ...Buffer.from('hello')]))
  const [frame] = (await once(socket, 'data')) as [Buffer]
  assert.equal(frame.subarray(2).toString(), 'HELLO')
  socket.destroy()
})

test('port --forward forwards a port to this machine', async () => {
  const child = world.start(['port', 'web', '3000', '--forward', '0'])
  const line = await new Promise<string>((resolve) =>
    child.stdout.once('data', (data: Buffer) => resolve(data.toString())),
  )
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(line)?.[1])
  const socket = connect(port, '127.0.0.1')
  socket.end('GET / HTTP/1.0\r\n\r\n')
  let answer = ''
  for await (const chunk of socket) answer += chunk
  assert.match(answer, /hello/)
  child.kill('SIGINT')
  assert.equal(await new Promise((resolve) => child.once('close', resolve)), 0)
})

for (const shell of ['bash', 'zsh', 'fish']) {
  test(`completion ${shell} names every command`, async () => {
    const script = await world.ok(['completion', shell])
    for (const name of ['run', 'create', 'exec', 'doctor', 'key']) assert.ok(script.includes(name))
    if (shell === 'bash') execFileSync('bash', ['-n'], { input: script })
  })
}

test('serve --port stays in the foreground and prints one line when ready', async () => {
  await using other = new World()
  const child = other.start(['serve', '--port', '0'])
  const line = await new Promise<string>((resolve) =>
    child.stdout.once('data', (data: Buffer) => resolve(data.toString())),
  )
  assert.match(line, /^agentpod \S+ serves on http:\/\/127\.0\.0\.1:\d+ and .*\n$/)
  child.kill('SIGTERM')
  assert.equal(await new Promise((resolve) => child.once('close', resolve)), 0)
})

test('serve ends on request, although nobody reads the log that fills its pipe', async () => {
  await using other = new World()
  const child = other.start(['serve', '--port', '0'])
  const line = await new Promise<string>((resolve) =>
    child.stdout.once('data', (data: Buffer) => resolve(data.toString())),
  )
  const url = /http:\S+/.exec(line)?.[0] ?? ''
  // A line of log each; a pipe takes 64 KiB, and the reader's own buffer as much again.
  for (let round = 0; round < 30; round++)
    await Promise.all(Array.from({ length: 50 }, async () => (await fetch(`${url}/v1/server`)).text()))
  child.kill('SIGTERM')
  assert.equal(await new Promise((resolve) => child.once('exit', resolve)), 0)
})

test('serve refuses an address other than loopback without TLS', async () => {
  await using other = new World()
  const { code, stderr } = await other.cli(['serve', '--port', '0', '--listen', '0.0.0.0'])
  assert.equal(code, 2)
  assert.match(stderr, /needs TLS/)
})
