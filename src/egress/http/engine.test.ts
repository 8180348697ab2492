import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createSocketServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { EgressFixture, readAll, readUntil, testPolicy } from '../testing/egress-fixture.ts'
import type { TransformRequest } from './request-transform.ts'

const MIB = 1024 * 1024
const GET = (path: string, more = ''): string =>
  `GET http://a.example${path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n${more}\r\n`

describe('a request that is allowed', () => {
  let stage: EgressFixture
  let handle: RequestListener = (_, res) => res.end()
  let upgrade: (req: IncomingMessage, socket: Socket) => void = (_, socket) => socket.destroy()
  let continued: RequestListener = (_, res) => res.end()
  before(async () => {
    const rules = ['a.example', { host: 'paths.example', paths: ['/ok/**'], methods: ['GET'] }]
    stage = await EgressFixture.open({
      policy: testPolicy(rules),
      spec: { headers: [{ host: 'a.example', headers: { 'X-Team': 'blue', Host: 'evil.test' } }] },
    })
    stage.name('a.example', ['192.0.2.10'])
    stage.name('paths.example', ['192.0.2.10'])
    const server = createServer((req, res) => handle(req, res))
    server.on('upgrade', (req, socket) => upgrade(req, socket as Socket))
    server.on('checkContinue', (req, res) => continued(req, res))
    await stage.place('192.0.2.10', 80, server)
  })
  after(() => stage.close())

  async function send(text: string): Promise<string> {
    const socket = await stage.podd.proxy()
    socket.write(text)
    return readAll(socket)
  }

  test('an allowed request arrives with its headers, without hop-by-hop headers', async () => {
    let raw: string[] = []
    handle = (req, res) => {
      raw = req.rawHeaders
      res.end()
    }
    const hop =
      'Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers, gzip\r\nConnection: X-Team\r\n'
    await send(GET('/x', `${hop}X-Mine: 1\r\nX-Twice: a\r\nX-Twice: b\r\n`))
    assert.deepEqual(raw, [
      ...['Host', 'a.example', 'X-Mine', '1', 'X-Twice', 'a', 'X-Twice', 'b'],
      ...['TE', 'trailers', 'X-Team', 'blue', 'Connection', 'keep-alive'],
    ])
  })

  test('the response to an allowed request is forwarded unchanged', async () => {
    handle = (_, res) => {
      res.writeHead(207, 'Many', [
        'X-A',
        '1',
        'X-A',
        '2',
        'Set-Cookie',
        'a',
        'Set-Cookie',
        'b',
        'X-AgentPod-Refused',
        'fake',
      ])
      res.end('body')
    }
    const answer = await send(GET('/'))
    assert.match(answer, /^HTTP\/1\.1 207 Many\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n/)
    assert.doesNotMatch(answer, /fake/)
    assert.match(answer, /body/)
  })

  test('a redirect is returned to the client and not followed', async () => {
    stage.asked.length = 0
    handle = (_, res) => res.writeHead(302, { location: 'http://169.254.169.254/latest/' }).end()
    assert.match(await send(GET('/')), /^HTTP\/1\.1 302 [\s\S]*169\.254\.169\.254/)
    const next = await send('GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n')
    assert.match(next, /^HTTP\/1\.1 403 /)
    assert.equal(
      stage.dialled.some((place) => place.startsWith('169')),
      false,
    )
  })

  test('NET-11 an event arrives before the next one is sent', async () => {
    let second = (): void => undefined
    handle = (_, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.write('data: 1\n\n')
      second = () => res.end('data: 2\n\n')
    }
    const socket = await stage.podd.proxy()
    socket.write(GET('/'))
    assert.doesNotMatch(await readUntil(socket, 'data: 1'), /data: 2/)
    second()
    assert.match(await readAll(socket), /data: 2/)
  })

  test('NET-11 a large body passes both ways without being buffered', async () => {
    const total = 64 * MIB
    const sum = createHash('sha256')
    handle = (req, res) => {
      res.writeHead(200, { 'Content-Length': total })
      req.pipe(res)
      req.on('data', (chunk: Buffer) => sum.update(chunk))
    }
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    const chunk = Buffer.alloc(MIB, 'x')
    socket.write(
      `POST / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: ${total}\r\n\r\n`,
    )
    const before = process.memoryUsage().rss
    let [got, most] = [0, 0]
    const done = new Promise<void>((resolve) => {
      socket.on('data', (piece: Buffer) => {
        got += piece.length
        most = Math.max(most, process.memoryUsage().rss - before)
      })
      socket.once('end', resolve)
    })
    for (let sent = 0; sent < total; sent += MIB)
      if (!socket.write(chunk)) await new Promise((resolve) => socket.once('drain', resolve))
    await done
    assert.ok(got > total)
    const expected = createHash('sha256')
    for (let at = 0; at < total; at += MIB) expected.update(chunk)
    assert.equal(sum.digest('hex'), expected.digest('hex'))
    assert.ok(most < 160 * MIB, `${Math.round(most / MIB)} MiB`)
  })

  test('NET-11 a body waits for a client that does not read', async () => {
    let written = 0
    handle = (_, res) => {
      res.writeHead(200)
      const more = (): void => {
        while (written < 256 * MIB) {
          written += MIB
          if (!res.write(Buffer.alloc(MIB))) return void res.once('drain', more)
        }
        res.end()
      }
      more()
    }
    const socket = await stage.podd.proxy()
    socket.write(GET('/'))
    await readUntil(socket, '\r\n\r\n')
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.ok(written < 64 * MIB, `${written / MIB} MiB`)
    socket.destroy()
  })

  test('trailers are forwarded, and Expect: 100-continue waits for the server', async () => {
    let trailers: string[] = []
    handle = (req, res) => {
      req.resume().on('end', () => {
        trailers = req.rawTrailers
        res.end()
      })
    }
    await send(
      'POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n',
    )
    assert.deepEqual(trailers, ['X-Sum', '9'])
    let body = ''
    continued = (req, res) => {
      res.writeContinue()
      req.on('data', (chunk) => (body += chunk)).on('end', () => res.end('thanks'))
    }
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    socket.write(
      'PUT / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n',
    )
    assert.match(await readUntil(socket, '\r\n\r\n'), /^HTTP\/1\.1 100 Continue/)
    socket.write('abc')
    assert.match(await readAll(socket), /200 OK[\s\S]*thanks/)
    assert.equal(body, 'abc')
  })

  test('I7: a request whose body begins after a rule change is not sent', async () => {
    const seen: string[] = []
    handle = (req, res) => {
      seen.push(req.url ?? '')
      req.resume().on('end', () => res.end('done'))
    }
    const post = (path: string): string =>
      `POST ${path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`
    const begin = async (path: string): Promise<Socket> => {
      const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
      socket.write(post(path))
      await new Promise((resolve) => setTimeout(resolve, 100))
      return socket
    }
    const [control, late] = [await begin('/control'), await begin('/late')]
    control.write('1\r\nx\r\n0\r\n\r\n')
    assert.match(await readAll(control), /^HTTP\/1\.1 200 [\s\S]*done/)
    stage.change({})
    late.write('1\r\nx\r\n0\r\n\r\n')
    assert.match(await readAll(late), /^HTTP\/1\.1 403 [\s\S]*policy\.changed/)
    assert.deepEqual(seen, ['/control'])
  })

  test('NET-11 an allowed request becomes a websocket', async () => {
    upgrade = (req, socket) => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${req.headers['sec-websocket-key']}\r\n\r\nfirst`,
      )
      socket.on('data', (chunk) => socket.write(`echo ${chunk}`))
      socket.on('end', () => socket.end())
    }
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    socket.write(
      'GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n',
    )
    assert.match(await readUntil(socket, 'first'), /^HTTP\/1\.1 101 [\s\S]*Sec-WebSocket-Accept: k\r\n/)
    socket.write('hello')
    assert.match(await readUntil(socket, 'hello'), /echo hello/)
    socket.end()
    await readAll(socket)
    upgrade = (_, socket) => socket.end('HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nnope')
    const refused = await stage.podd.direct({ name: 'a.example', port: 80 })
    refused.write(
      'GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    )
    assert.match(await readAll(refused), /^HTTP\/1\.1 401 No[\s\S]*nope$/)
  })

  test('each request on a connection is decided by its own method and path', async () => {
    handle = (req, res) => res.end(`got ${req.url}`)
    const socket = await stage.podd.direct({ name: 'paths.example', port: 80 })
    socket.write('GET /ok/1 HTTP/1.1\r\nHost: paths.example\r\n\r\n')
    assert.match(await readUntil(socket, 'got'), /got \/ok\/1/)
    socket.write('GET /other HTTP/1.1\r\nHost: paths.example\r\n\r\n')
    assert.match(await readAll(socket), /^HTTP\/1\.1 403 [\s\S]*X-AgentPod-Refused: rule\.none/)
    for (const line of ['POST /ok/1', 'GET /ok/../other', 'GET /ok/%2e%2e/other', 'TRACE /ok/1']) {
      const one = await stage.podd.direct({ name: 'paths.example', port: 80 })
      one.write(`${line} HTTP/1.1\r\nHost: paths.example\r\n\r\n`)
      assert.match(await readAll(one), /^HTTP\/1\.1 403 /, line)
    }
  })

  test('each request to the proxy goes to its own host', async () => {
    handle = (req, res) => res.end(`for ${req.headers.host}`)
    const socket = await stage.podd.proxy()
    socket.write('GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n')
    await readUntil(socket, 'for a.example')
    socket.write('GET http://paths.example/ok/ HTTP/1.1\r\nHost: paths.example\r\n\r\n')
    await readUntil(socket, 'for paths.example')
    socket.write('GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n')
    assert.match(await readAll(socket), /^HTTP\/1\.1 403 /)
  })

  const mismatched: Readonly<Record<string, readonly [status: number, text: string]>> = {
    'another Host than its URL': [400, 'GET http://a.example/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'],
    'another port than its URL': [400, 'GET http://a.example/ HTTP/1.1\r\nHost: a.example:8080\r\n\r\n'],
    'no URL, to a proxy': [400, 'GET / HTTP/1.1\r\nHost: a.example\r\n\r\n'],
    'a URL of https, to a proxy': [400, 'GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n'],
    'a URL of ftp': [400, 'GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n'],
    'a URL with a user': [400, 'GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n'],
  }
  for (const [name, [status, text]] of Object.entries(mismatched))
    test(`a request with ${name} is refused`, async () =>
      assert.match(await send(text), new RegExp(`^HTTP/1\\.1 ${status} `)))

  test('a request must be for the host of its connection', async () => {
    for (const [first, host] of [
      ['/', 'evil.test'],
      ['/', 'a.example:8080'],
      ['http://evil.test/', 'evil.test'],
      ['https://a.example/', 'a.example'],
    ]) {
      const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
      socket.write(`GET ${first} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
      assert.match(await readAll(socket), /^HTTP\/1\.1 4(?:21|00) /, `${first} ${host}`)
    }
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    socket.write('GET http://A.example:80/ HTTP/1.1\r\nHost: a.EXAMPLE:80\r\nConnection: close\r\n\r\n')
    assert.match(await readAll(socket), /^HTTP\/1\.1 200 /)
  })

  test('a response that the server cuts off does not look complete', async () => {
    handle = (req) => void req.socket.destroy()
    assert.match(await send(GET('/')), /^HTTP\/1\.1 502 [\s\S]*Content-Length: \d+[\s\S]*upstream\.failed/)
    handle = (req, res) => {
      res.writeHead(200, { 'Content-Length': 100 })
      res.write('part')
      setTimeout(() => req.socket.destroy(), 20)
    }
    assert.match(await send(GET('/')), /Content-Length: 100\r\n[\s\S]*part$/)
  })
})

describe('a request transform', () => {
  test('a request transform changes a request, its response and both bodies, or refuses it', async () => {
    const { Transform } = await import('node:stream')
    const upper = () =>
      new Transform({ transform: (chunk, _, done) => done(null, String(chunk).toUpperCase()) })
    const transformRequest: TransformRequest = ({ head }) =>
      head.path === '/no'
        ? { status: 403, reason: 'secret.slot', message: 'a secret is not for here' }
        : {
            head: { ...head, headers: [...head.headers, ['X-Secret', 's']] },
            bodyOut: upper(),
            response: (answer) => ({ ...answer, headers: [['X-Seen', '1']] }),
            bodyIn: () => upper(),
          }
    const stage = await EgressFixture.open({ transformRequest, policy: testPolicy(['a.example']) })
    stage.name('a.example', ['192.0.2.10'])
    let body = ''
    const server = createServer((req, res) => {
      req.on('data', (chunk) => (body += chunk))
      req.on('end', () => res.end(`the secret is ${req.headers['x-secret']}`))
    })
    await stage.place('192.0.2.10', 80, server)
    const socket = await stage.podd.direct({ name: 'a.example', port: 80 })
    socket.write('POST / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello')
    const answer = await readAll(socket)
    assert.equal(body, 'HELLO')
    assert.match(answer, /X-Seen: 1\r\n[\s\S]*THE SECRET IS S/)
    const refused = await stage.podd.direct({ name: 'a.example', port: 80 })
    refused.write('GET /no HTTP/1.1\r\nHost: a.example\r\n\r\n')
    assert.match(await readAll(refused), /^HTTP\/1\.1 403 [\s\S]*secret\.slot/)
    await stage.close()
  })
})

test('GP-04 a request to a member of the group gets no headers and no secrets of a host of that name', async () => {
  const path = join(tmpdir(), `members-${process.pid}.sock`)
  let sent = ''
  const members = createSocketServer((socket) => {
    socket.once('data', () => {
      socket.write('ok\n')
      socket.on('data', (chunk) => {
        sent += chunk
        if (sent.includes('\r\n\r\n')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
      })
    })
  }).listen(path)
  const rule = { host: 'vault.internal', ports: [80], private: true }
  const reached: string[] = []
  const stage = await EgressFixture.open({
    policy: { ...testPolicy([rule]), members: ['vault.internal'] },
    spec: { headers: [{ host: 'vault.internal', headers: { 'X-Team': 'blue' } }], memberSocket: path },
    transformRequest: ({ head, site }) => {
      reached.push(site.destination.kind)
      return { head }
    },
  })
  const ask = async (): Promise<string> => {
    const socket = await stage.podd.proxy()
    socket.write('GET http://vault.internal/ HTTP/1.1\r\nHost: vault.internal\r\nConnection: close\r\n\r\n')
    return readAll(socket)
  }
  assert.match(await ask(), /^HTTP\/1\.1 200/)
  assert.match(sent, /^GET \/ /)
  assert.doesNotMatch(sent, /X-Team/)
  assert.deepEqual(reached, [])
  // The control: a host of that name gets both.
  let raw: string[] = []
  stage.name('vault.internal', ['192.0.2.10'])
  const server = createServer((req, res) => {
    raw = req.rawHeaders
    res.end()
  })
  await stage.place('192.0.2.10', 80, server)
  stage.change({ policy: testPolicy([rule]) })
  assert.match(await ask(), /^HTTP\/1\.1 200/)
  assert.ok(raw.includes('X-Team'))
  assert.deepEqual(reached, ['name'])
  await stage.close()
  members.close()
})
