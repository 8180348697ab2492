/** Groups FS and CP over the wire: names, links and archives that a client or a sandbox makes up. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { readText } from '../../src/client/transport.ts'
import { assertNoToken, Canary, findToken } from '../support/canary.ts'
import { createWithSudo, HAS_SUDO } from '../support/chosen-provider.ts'
import { inside, shell } from '../support/probe.ts'
import { type RawAnswer, type RawRequest, rawRequest } from '../support/raw-http.ts'
import { type TarEntry, tarOf } from '../support/tar-bytes.ts'
import { World } from '../support/world.ts'

const world = new World()
const client = world.client()
const socket = join(world.home, 'run', 'api.sock')
let canary: Canary
let plain: Sandbox
let sudo: Sandbox
let untouched: string[]

before(async () => {
  canary = await Canary.plant()
  plain = await client.create({})
  sudo = await createWithSudo(client)
})

after(async () => {
  await canary[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
})

/** The canary's directory as it is; no test may change it. */
function hostTree(): string[] {
  return readdirSync(canary.directory)
    .map(
      (name) =>
        `${name} ${statSync(join(canary.directory, name)).nlink} ${statSync(join(canary.directory, name)).size}`,
    )
    .sort()
}

beforeEach(() => {
  untouched = hostTree()
})

function assertHostUntouched(): void {
  assert.deepEqual(hostTree(), untouched)
  assert.equal(readFileSync(canary.file, 'utf8'), canary.token)
}

const ask = (
  o: Omit<RawRequest, 'socket' | 'headers'> & { headers?: Record<string, string> },
): Promise<RawAnswer> => rawRequest({ socket, ...o, headers: { 'agentpod-sandbox': plain.id, ...o.headers } })

const get = (path: string): Promise<RawAnswer> =>
  ask({ method: 'GET', path: `/files?path=${encodeURIComponent(path)}` })

const rpc = (method: string, body: object, headers: Record<string, string> = {}): Promise<RawAnswer> =>
  ask({
    method: 'POST',
    path: `/filesystem.Filesystem/${method}`,
    headers: { 'content-type': 'application/json', ...headers },
    body: Buffer.from(JSON.stringify(body)),
  })

test('the control: a file inside is read through the API', async () => {
  await shell(plain, 'echo own > ~/own; ln -s own ~/link')
  for (const name of ['own', 'link']) {
    const { status, body } = await get(`/home/user/${name}`)
    assert.deepEqual([status, body.toString('utf8').includes('own\n')], [200, true], name)
  }
})

test('FS-02 a link to the host’s path leads to a path inside, whichever way it is read', async () => {
  const targets = [
    canary.file,
    canary.directory,
    `/proc/1/root${canary.file}`,
    `/proc/self/root${canary.file}`,
    '/proc/self/environ',
    '/proc/self/mem',
    '/proc/1/environ',
    '/proc/self/fd/3',
    '/proc/self/fd/4',
    '/proc/self/fd/5',
    '/proc/thread-self/root',
    '/dev/stdin',
  ]
  for (const [i, target] of targets.entries()) {
    const link = `/home/user/door${i}`
    await shell(plain, `ln -sfn '${target}' ${link}`)
    for (const path of [link, `${link}/`, `${link}/../secret`, `${link}/secret`]) {
      const read = await get(path)
      assert.ok(read.status >= 400, `GET ${path} -> ${target}: ${read.status}`)
      assertNoToken(read.body.toString('latin1'), canary.token, path)
    }
    const packed = await ask({ method: 'GET', path: `/agentpod/tar?path=${encodeURIComponent(link)}` })
    assertNoToken(packed.body.toString('latin1'), canary.token, `tar of ${target}`)
    if (target.startsWith('/proc/self/') && !target.includes('/root'))
      assert.ok(packed.status >= 400, `tar of ${target}`)
    for (const method of ['Stat', 'ListDir']) {
      const { body } = await rpc(method, { path: link, depth: 3 })
      assert.ok(!body.includes('secret') || body.includes('door'), `${method} of ${target}`)
    }
  }
  assertHostUntouched()
})

test('FS-02 a link is followed for writing inside only', async () => {
  await shell(
    plain,
    `ln -sfn ${canary.file} ~/out; ln -sfn ${canary.directory} ~/outdir; ln -sfn /proc/self/fd/4 ~/group; ln -sfn /proc/1/oom_score_adj ~/score`,
  )
  for (const path of [
    '~/out',
    '~/outdir/secret',
    '~/outdir/made',
    '~/group',
    '~/score',
    '/proc/self/mem',
    '/proc/1/comm',
  ]) {
    const { status } = await ask({
      method: 'POST',
      path: `/files?path=${encodeURIComponent(path)}`,
      headers: { 'content-type': 'application/octet-stream' },
      body: Buffer.from('overwritten'),
    })
    // A dangling link may be written through: then the file is the sandbox's own.
    if (path === '~/group' || path === '~/score' || path.startsWith('/proc'))
      assert.ok(status >= 400, `${path}: ${status}`)
  }
  for (const [method, body] of [
    ['Remove', { path: '~/outdir/secret' }],
    ['Move', { source: '~/outdir/secret', destination: '~/mine' }],
    ['Move', { source: '~/own', destination: '~/outdir/made' }],
    ['MakeDir', { path: '~/outdir/made2' }],
  ] as const)
    await rpc(method, body)
  assertHostUntouched()
})

test('FS-03 a file that is swapped for a link while it is read a thousand times never shows the host', async () => {
  const swapper = plain.exec('/usr/bin/python3', {
    args: [
      '-c',
      `
import os
os.makedirs('/home/user/race', exist_ok=True)
os.chdir('/home/user/race')
open('plain', 'w').write('inside')
targets = ['${canary.file}', '/proc/self/environ', '/proc/1/root${canary.file}', '/proc/self/mem', '/proc/self/fd/5']
n = 0
while True:
  n += 1
  os.symlink(targets[n % len(targets)], 'next')
  os.rename('next', 'file')
  os.link('plain', 'next')
  os.rename('next', 'file')
  if n == 1: print('swapping', flush=True)`,
    ],
  })
  const output = swapper.output()
  assert.match(String((await output.next()).value?.data), /swapping/)
  const draining = (async () => {
    for await (const _ of output);
  })().catch(() => undefined)
  const seen = { inside: 0, refused: 0, odd: 0 }
  for (let round = 0; round < 1000; round += 20) {
    await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const path = '/home/user/race/file'
        const response = await (i % 2 ? plain.readFile(path) : plain.pack(path))
          .then(readText)
          .catch((error: Error) => `refused ${error.message}`)
        assertNoToken(response, canary.token, 'what was read')
        assert.ok(!response.includes('PATH='), 'an environment was read')
        if (response.startsWith('refused')) seen.refused++
        else if (response.includes('inside')) seen.inside++
        else seen.odd++
      }),
    )
  }
  await swapper.signal('SIGKILL')
  await draining
  assert.ok(seen.inside > 20 && seen.refused > 20, `the control: both were met: ${JSON.stringify(seen)}`)
})

test('FS-03 a directory that is swapped for a link while archives go in never leads out', async () => {
  const swapper = plain.exec('/usr/bin/python3', {
    args: [
      '-c',
      `
import os
os.makedirs('/home/user/in/real', exist_ok=True)
os.chdir('/home/user/in')
n = 0
while True:
  n += 1
  try:
    os.symlink(['/var/tmp', '/proc/1/root/var/tmp'][n % 2], 'next'); os.rename('next', 'dir')
  except OSError: pass
  try: os.unlink('dir')
  except OSError: pass
  try: os.mkdir('dir')
  except OSError: pass
  try: os.rename('dir', 'gone%d' % (n % 50))
  except OSError: pass
  if n == 1: print('swapping', flush=True)`,
    ],
  })
  const output = swapper.output()
  assert.match(String((await output.next()).value?.data), /swapping/)
  const draining = (async () => {
    for await (const _ of output);
  })().catch(() => undefined)
  const archive = tarOf([
    { name: 'dir', type: 'directory' },
    { name: 'dir/planted', content: 'x' },
  ])
  for (let i = 0; i < 200; i++) await plain.unpack('/home/user/in', archive).catch(() => undefined)
  await swapper.signal('SIGKILL')
  await draining
  // The path above the target belongs to the user, so even a lost race would be the user's own doing. The
  // walk beneath the directory must hold all the same.
  assert.match(await shell(plain, 'ls /var/tmp/planted'), /No such file/)
})

describe('FS-04 uploads under hostile names', () => {
  const up = '../'.repeat(20)
  const names: Record<string, () => string | Buffer> = {
    'steps up': () => encodeURIComponent(`${up}${canary.directory.slice(1)}/made`),
    'steps up from an absolute path': () =>
      encodeURIComponent(`/home/user/${up}${canary.directory.slice(1)}/made`),
    'steps up with backslashes': () => encodeURIComponent(`..\\..\\..\\..${canary.directory}\\made`),
    'encoded steps': () => `${'%2e%2e%2f'.repeat(12)}${canary.directory.slice(1)}/made`,
    'twice encoded steps': () => `${'%252e%252e%252f'.repeat(12)}${canary.directory.slice(1)}/made`,
    'an absolute path of the host': () => encodeURIComponent(`${canary.directory}/made`),
    'a NUL byte': () => `${canary.directory}/made%00.txt`,
    'overlong UTF-8 steps': () => `${'%c0%ae%c0%ae%c0%af'.repeat(12)}${canary.directory.slice(1)}/made`,
    'raw overlong bytes': () =>
      Buffer.concat([
        Buffer.from('/home/user/'),
        Buffer.from([0xc0, 0xae, 0xc0, 0xae, 0xc0, 0xaf]),
        Buffer.from('made'),
      ]),
    'an overlong name': () => 'a'.repeat(5000),
    'an overlong path': () => encodeURIComponent('a/'.repeat(4000)),
    'another user’s home': () => encodeURIComponent('~root/made'),
    'the state directory': () => encodeURIComponent(`${world.home}/run/made`),
  }
  for (const [name, make] of Object.entries(names)) {
    test(`FS-04 ${name}: nothing appears on the host`, async () => {
      const path = Buffer.concat([Buffer.from('/files?path='), Buffer.from(make())])
      for (const method of ['POST', 'PUT']) {
        const answer = await ask({
          method,
          path,
          body: Buffer.from('x'),
          headers: { 'content-type': 'application/octet-stream' },
        })
        assert.ok(
          [200, 400, 403, 404, 405, 413, 414, 431].includes(answer.status),
          `${method}: ${answer.status} ${answer.body}`,
        )
      }
      const form = [
        '--frontier',
        `content-disposition: form-data; name="file"; filename="${decodeURIComponentSafely(make().toString('latin1'))}"`,
        '',
        'x',
        '--frontier--',
        '',
      ].join('\r\n')
      await ask({
        method: 'POST',
        path: '/files',
        headers: { 'content-type': 'multipart/form-data; boundary=frontier' },
        body: Buffer.from(form),
      })
      assertHostUntouched()
      assert.deepEqual(
        readdirSync(join(world.home, 'run')).filter((file) => file === 'made'),
        [],
      )
    })
  }

  test('FS-04 the control: such a file is the sandbox’s own', async () => {
    await plain.writeFile(`${up}tmp/agentpod-control`, Buffer.from('inside'))
    assert.equal(await shell(plain, 'cat /tmp/agentpod-control'), 'inside')
  })
})

function decodeURIComponentSafely(text: string): string {
  try {
    return decodeURIComponent(text).replaceAll(/[\r\n"]/g, '')
  } catch {
    return text
  }
}

describe('archives with hostile entries', () => {
  const up = '../'.repeat(16)
  const hostile: Record<string, (c: Canary) => readonly TarEntry[]> = {
    'FS-05 an entry that steps up': () => [{ name: '../../x', content: 'x' }],
    'FS-05 an entry that steps far up': (c) => [{ name: `${up}${c.directory.slice(1)}/made`, content: 'x' }],
    'FS-05 an absolute entry': () => [{ name: '/var/tmp/absolute', content: 'x' }],
    'FS-05 a step up in the middle': () => [{ name: 'a/../../x', content: 'x' }],
    'FS-06 a link and a file through it': () => [
      { name: 'door', type: 'symlink', target: '/var/tmp' },
      { name: 'door/through', content: 'x' },
    ],
    'FS-06 a link up and a file through it': () => [
      { name: 'door', type: 'symlink', target: '../../../var/tmp' },
      { name: 'door/through', content: 'x' },
    ],
    'FS-06 a link through /proc and a file through it': () => [
      { name: 'door', type: 'symlink', target: '/proc/self/root/var/tmp' },
      { name: 'door/through', content: 'x' },
    ],
    'FS-06 two links and a file through both': () => [
      { name: 'a', type: 'symlink', target: '/var' },
      { name: 'b', type: 'symlink', target: 'a/tmp' },
      { name: 'b/through', content: 'x' },
    ],
    'FS-07 a hard link to a file outside the directory': () => [
      { name: 'stolen', type: 'hardlink', target: '/etc/passwd' },
    ],
    'FS-07 a hard link that steps up': () => [
      { name: 'stolen', type: 'hardlink', target: '../../../etc/passwd' },
    ],
    'FS-07 a hard link through a link': () => [
      { name: 'door', type: 'symlink', target: '/etc' },
      { name: 'stolen', type: 'hardlink', target: 'door/passwd' },
    ],
    'FS-07 a hard link from deep within': () => [
      { name: 'a/b/c/d/door', type: 'symlink', target: '/etc' },
      { name: 'a/b/stolen', type: 'hardlink', target: 'a/b/c/d/door/passwd' },
    ],
    'FS-07 a hard link to podd': () => [{ name: 'stolen', type: 'hardlink', target: '../../.agentpod/podd' }],
    'a device node': () => [{ name: 'mem', type: 'char', device: [1, 1], mode: 0o666 }],
    'a FIFO': () => [{ name: 'fifo', type: 'fifo' }],
  }
  for (const [name, entries] of Object.entries(hostile)) {
    for (const user of ['user', 'root']) {
      test(`${name}, unpacked as ${user}, is refused and changes nothing`, async () => {
        const target = user === 'root' ? sudo : plain
        const directory = `/home/user/unpack-${name.replaceAll(/\W/g, '')}`
        const answer = await ask({
          method: 'POST',
          path: `/agentpod/tar?path=${directory}&username=${user}`,
          headers: { 'content-type': 'application/x-tar', 'agentpod-sandbox': target.id },
          body: tarOf(entries(canary)),
        })
        assert.equal(answer.status, 400, String(answer.body))
        const found = await inside<{ planted: string[]; links: number; odd: string[] }>(
          target,
          `
odd = []
for at, dirs, names in os.walk('${directory}'):
  for n in names:
    s = os.lstat(os.path.join(at, n))
    if s.st_nlink > 1 or (s.st_mode & 0o170000) not in (0o100000, 0o120000, 0o040000): odd.append(n)
tell({'planted': [p for p in ('/var/tmp/through', '/var/tmp/absolute', '/home/x', '/home/user/x', '/x') if os.path.lexists(p)], 'links': os.stat('/etc/passwd').st_nlink, 'odd': odd})`,
          { user: 'root' },
        )
        assert.deepEqual(found, { planted: [], links: 1, odd: [] })
        assertHostUntouched()
      })
    }
  }

  test('the control: an ordinary archive with links of its own is accepted', async () => {
    await plain.unpack(
      '/home/user/good',
      tarOf([
        { name: 'd', type: 'directory' },
        { name: 'd/file', content: 'content', mode: 0o6755 },
        { name: 'd/hard', type: 'hardlink', target: 'd/file' },
        { name: 'soft', type: 'symlink', target: 'd/file' },
      ]),
    )
    assert.equal(
      await shell(plain, 'cd ~/good && cat soft d/hard && stat -c %a d/file'),
      'contentcontent755\n',
    )
  })

  test('set-user-id bits do not come in by archive, not even as root', async () => {
    await sudo.unpack('/var/tmp/suid', tarOf([{ name: 'tool', content: 'x', mode: 0o6755 }]), {
      user: 'root',
    })
    assert.equal(await shell(sudo, 'stat -c %a /var/tmp/suid/tool'), '755\n')
  })
})

describe('calls that only the engine may make', () => {
  const spelled = [
    '/agentpod/init',
    '/agentpod/lease',
    '//agentpod/init',
    '/agentpod//init',
    '/agentpod/./init',
    '/x/../agentpod/init',
    '/agentpod/%69nit',
    '/%61gentpod/init',
    '/agentpod%2finit',
    '/agentpod%2Finit',
    '/agentpod\\init',
    '/agentpod/init/',
    '/agentpod/init?x=1',
    '/agentpod/init#x',
    '/AGENTPOD/INIT',
    '/agentpod/init%00',
    'http://agentpod/agentpod/init',
    'https:///agentpod/init',
    '/;/agentpod/init',
    '/.%2e/agentpod/init',
    '/agentpod/..%2fagentpod/init',
  ]
  test('CP-20 no spelling of init or lease passes to the guest', async () => {
    for (const path of spelled) {
      for (const method of ['PUT', 'POST', 'GET']) {
        const { status } = await ask({
          method,
          path,
          headers: { 'content-type': 'application/json' },
          body: Buffer.from('{"sudo":true,"defaultUser":"root","lease":{"remainingMs":1}}'),
        })
        assert.ok(status >= 400, `${method} ${path}: ${status}`)
      }
    }
    assert.equal(await shell(plain, 'id -u; grep NoNewPrivs /proc/self/status'), '1000\nNoNewPrivs:\t1\n')
  })

  test('CP-20 no upgrade and no smuggled second request carries init or lease to the guest', async () => {
    const { status } = await ask({
      method: 'PUT',
      path: '/agentpod/init',
      headers: { connection: 'upgrade', upgrade: 'agentpod-tunnel' },
    })
    assert.ok(status >= 400 || status === 0)
    const inner = `PUT /agentpod/init HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"sudo":true}`
    for (const headers of [
      `content-length: 4\r\ntransfer-encoding: chunked\r\n`,
      `transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n`,
      `transfer-encoding: xchunked\r\n`,
      `content-length: 0\r\ncontent-length: ${inner.length}\r\n`,
      `content-length: +${inner.length}\r\n`,
      `transfer-encoding : chunked\r\n`,
      `transfer-encoding:\tchunked\r\n x: y\r\n`,
    ]) {
      const text = `POST /files?path=/tmp/smuggled HTTP/1.1\r\nhost: agentpod\r\nagentpod-sandbox: ${plain.id}\r\n${headers}\r\n0\r\n\r\n${inner}`
      await new Promise<void>((resolve) => {
        const raw = connect(socket)
        raw.on('data', () => undefined)
        raw.on('error', () => resolve())
        raw.on('close', () => resolve())
        raw.write(text)
        setTimeout(() => raw.end(), 50)
        setTimeout(() => raw.destroy(), 500)
      })
    }
    assert.equal(await shell(plain, 'grep NoNewPrivs /proc/self/status'), 'NoNewPrivs:\t1\n')
    if (HAS_SUDO)
      assert.match(
        await shell(sudo, 'grep NoNewPrivs /proc/self/status'),
        /NoNewPrivs:\t0/,
        'the control: it would have shown',
      )
  })
})

test('CP-06 ids and names of sandboxes cannot be paths', async () => {
  const hostile = [
    '../x',
    '..%2f..%2fetc',
    '%00',
    'a'.repeat(10_000),
    '.',
    '..',
    '/etc/passwd',
    '__proto__',
    'constructor',
    '*',
    "' or 1=1 --",
  ]
  for (const name of hostile) {
    const { status, body } = await rawRequest({
      socket,
      method: 'GET',
      path: `/v1/sandboxes/${encodeURI(name).replaceAll("'", '%27')}`,
    })
    assert.ok([400, 404, 431].includes(status), `${name.slice(0, 30)}: ${status}`)
    assert.ok(!body.includes('root:'), name)
    const header = await rawRequest({
      socket,
      method: 'GET',
      path: '/files?path=/etc/passwd',
      headers: { 'agentpod-sandbox': name },
    })
    assert.ok([400, 404, 431].includes(header.status), `${name.slice(0, 30)} in the header: ${header.status}`)
    // A word is a name, whatever it means to JavaScript.
    if (/^\w+$/.test(name) && name.length < 100) continue
    await assert.rejects(client.create({ name }), { code: 'invalid_argument' }, name.slice(0, 30))
  }
})

test('CP-15 bodies that are too deep, too large or poisoned are refused, and the server lives', async () => {
  const post = (body: string): Promise<RawAnswer> =>
    rawRequest({
      socket,
      method: 'POST',
      path: '/v1/sandboxes',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(body),
    })
  for (const body of [
    '['.repeat(100_000),
    `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`,
    '{"__proto__":{"sudo":true}}',
    '{"environment":{"__proto__":{"sudo":true}}}',
    '{"constructor":{"prototype":{"sudo":true}}}',
    '{"resources":{"memoryMib":1e999}}',
    '{"resources":{"memoryMib":-1}}',
    '{"resources":{"cpus":1e-300}}',
    '{"lifetime":{"ttlMs":1e308}}',
    '{"name":"\\ud800"}',
    'null',
    '"x"',
    '{',
    `{"name":"${'a'.repeat(5 << 20)}"}`,
  ]) {
    const { status } = await post(body)
    assert.ok([400, 413, 415, 422, 429].includes(status), `${body.slice(0, 40)}: ${status}`)
  }
  assert.equal(({} as { sudo?: boolean }).sudo, undefined)
  assert.deepEqual((await client.list()).map(({ id }) => id).sort(), [plain.id, sudo.id].sort())
})

test('CP-20 the search that these tests use finds a canary in an answer', async () => {
  await plain.writeFile('/home/user/planted', Buffer.from(canary.token))
  const { body } = await get('/home/user/planted')
  assert.ok(findToken(body.toString('latin1'), canary.token))
})
