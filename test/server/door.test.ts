// The TCP door over a real listener and a fake provider: who gets in, how far, and what is left of refused
// clients.

import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { signature } from '../../src/api/e2b/signed-file.ts'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Sandbox } from '../../src/core/sandbox.ts'
import { Front } from '../support/front.ts'
import { errorOf, type TcpAnswer, type TcpRequest, tcpRequest } from '../support/tcp.ts'
import { until } from '../support/world.ts'

let front: Front
let secret = ''
let admin = ''
let mine: Sandbox
before(async () => {
  front = await Front.open({ domains: ['pods.test'] })
  secret = front.key()
  admin = front.key('admin')
  mine = await front.engine.sandboxes.create(
    { owner: front.keys.verify(secret).owner },
    { owner: front.keys.verify(secret).owner, isAdmin: false },
  )
})
after(() => front[Symbol.asyncDispose]())

const ask = (o: Omit<TcpRequest, 'port'>, at: Front = front): Promise<TcpAnswer> =>
  tcpRequest({ port: at.port, ...o })
const withKey = (key: string = secret): Record<string, string> => ({ 'x-api-key': key })
const hostOf = (id: string, port: number, domain = 'localhost'): string =>
  `${port}-${id}.${domain}:${front.port}`

describe('a key', () => {
  test('a key opens the API as X-API-Key and as a bearer token', async () => {
    assert.equal((await ask({ path: '/v1/sandboxes', headers: withKey() })).status, 200)
    const headers = { authorization: `Bearer ${secret}` }
    assert.equal((await ask({ path: '/v1/sandboxes', headers })).status, 200)
  })

  test('a key is not taken from a query, a cookie, a basic login or two headers', async () => {
    for (const o of [
      { path: `/v1/sandboxes?key=${secret}` },
      { path: `/v1/sandboxes?x-api-key=${secret}` },
      { path: '/v1/sandboxes', headers: { cookie: `x-api-key=${secret}` } },
      {
        path: '/v1/sandboxes',
        headers: { authorization: `Basic ${Buffer.from(`${secret}:`).toString('base64')}` },
      },
      { path: '/v1/sandboxes', headers: { 'X-API-Key': `${secret}, ${secret}` } },
    ])
      assert.equal((await ask(o)).status, 401, JSON.stringify(o.headers ?? o.path.split('=')[0]))
  })

  test('a key sent as a bearer token does not reach the program inside', async () => {
    const seen: unknown[] = []
    const { guest, envd } = front.engine.guests.connection(mine.id, LOCAL)
    guest.passThrough = (request, o) => {
      seen.push(request.headers)
      return envd.handle(request, o)
    }
    try {
      for (const o of [
        { path: '/health', headers: { authorization: `Bearer ${secret}`, 'agentpod-sandbox': mine.id } },
        { path: '/health', headers: { 'x-api-key': secret, 'agentpod-sandbox': mine.id } },
        { path: '/health', host: hostOf(mine.id, 49983), headers: { authorization: `Bearer ${secret}` } },
        {
          path: '/health',
          host: hostOf(mine.id, 49983),
          headers: { 'x-access-token': front.tokens.dataToken(mine.id), authorization: 'Basic dXNlcjo=' },
        },
      ])
        await ask(o)
    } finally {
      delete guest.passThrough
    }
    assert.equal(seen.length, 4)
    assert.ok(!JSON.stringify(seen).includes(secret))
    assert.ok(!JSON.stringify(seen).includes(front.tokens.dataToken(mine.id)))
    assert.match(JSON.stringify(seen), /Basic dXNlcjo=/, 'the control: what is the guest’s own passes')
  })
})

describe('CP-03 the Origin', () => {
  const own = (): string => `http://localhost:${front.port}`
  const FOREIGN = (): string[] => [
    'http://evil.test',
    'https://evil.test',
    'null',
    '',
    'file://',
    `http://localhost:${front.port + 1}`,
    'http://localhost',
    `http://127.0.0.1:${front.port}`,
    `http://localhost:${front.port}.evil.test`,
    `http://evil.test@localhost:${front.port}`,
    `http://localhost:${front.port}/`,
    `HTTP://LOCALHOST:${front.port}`,
    `http://${hostOf(mine.id, 3000)}`,
    `http://localhost:${front.port} http://evil.test`,
  ]
  test('CP-03 a request from another page’s Origin is refused, with and without a key, and changes nothing', async () => {
    const before = front.engine.usage.count
    for (const origin of FOREIGN()) {
      for (const headers of [{ origin }, { origin, ...withKey() }]) {
        const answer = await ask({ method: 'POST', path: '/v1/sandboxes', headers, body: '{}' })
        assert.equal(answer.status, 403, origin)
        assert.equal(errorOf(answer).reason, 'origin.foreign')
      }
    }
    assert.equal(front.engine.usage.count, before)
  })

  test('CP-03 the control: requests from our own page’s Origin, and without one, pass', async () => {
    for (const headers of [{ origin: own() }, {}])
      assert.equal((await ask({ path: '/v1/usage', headers: { ...headers, ...withKey() } })).status, 200)
  })
})

describe('the data plane by Host', () => {
  const read = (o: Partial<TcpRequest> = {}): Promise<TcpAnswer> =>
    ask({ path: '/files?path=/tmp/a', host: hostOf(mine.id, 49983), ...o })
  const token = (): Record<string, string> => ({ 'x-access-token': front.tokens.dataToken(mine.id) })
  const asFile = (): Record<string, string> => ({ ...token(), 'content-type': 'application/octet-stream' })
  before(async () => {
    await read({ method: 'POST', headers: asFile(), body: 'content' })
  })

  test('the data plane of a sandbox opens to its token and to nothing else', async () => {
    assert.equal((await read({ headers: token() })).status, 200)
    const other = await front.engine.sandboxes.create({}, LOCAL)
    for (const headers of [
      {},
      { 'x-access-token': '' },
      { 'x-access-token': front.tokens.dataToken(other.id) },
      { 'x-access-token': front.tokens.trafficToken(mine.id) },
      { 'x-access-token': secret },
      withKey(),
      withKey(admin),
    ])
      assert.equal((await read({ headers })).status, 401)
    await front.engine.sandboxes.destroy(other.id, LOCAL)
  })

  test('the data plane answers health checks to anybody, but takes no body for them', async () => {
    assert.ok((await read({ path: '/health' })).status < 300)
    assert.equal((await read({ path: '/health', method: 'POST', body: 'x' })).status, 401)
  })

  const sign = (file: { path: string; operation?: 'read' | 'write'; user?: string }): string =>
    encodeURIComponent(
      signature(
        { operation: 'read', user: '', expiration: undefined, ...file },
        front.tokens.dataToken(mine.id),
      ),
    )

  test('the data plane opens to a signed address, on its own host and on the shared one', async () => {
    const path = `/files?path=/tmp/a&signature=${sign({ path: '/tmp/a' })}`
    for (const host of [hostOf(mine.id, 49983), undefined])
      assert.equal((await ask({ path, ...(host && { host }) })).text, 'content')
    assert.equal(
      (await ask({ path: path.replace('/tmp/a', '/tmp/b'), host: hostOf(mine.id, 49983) })).status,
      401,
    )
    assert.equal((await ask({ path, method: 'POST', body: 'x', host: hostOf(mine.id, 49983) })).status, 401)
  })

  test('a signed address reads what was signed, whatever else stands in it', async () => {
    await read({ method: 'POST', path: '/files?path=/tmp/secret', headers: asFile(), body: 'other' })
    await read({ method: 'POST', path: '/files?path=%2Ftmp%2Fx%3By', headers: asFile(), body: 'odd' })
    const seen: string[] = []
    const { guest, envd } = front.engine.guests.connection(mine.id, LOCAL)
    guest.passThrough = (request, o) => {
      seen.push(request.path)
      return envd.handle(request, o)
    }
    const given = sign({ path: '/tmp/x;y' })
    for (const path of [
      `/files?path=/tmp/x;y&path=/tmp/secret&signature=${given}`,
      `/files?path=/tmp/x;y&signature=${given}&path=/tmp/secret&username=root;`,
    ]) {
      const answer = await read({ path })
      assert.ok(!answer.text.includes('other'))
    }
    delete guest.passThrough
    assert.deepEqual([...new Set(seen)], ['/files?path=%2Ftmp%2Fx%3By'])
  })

  test('API-5 CP-09 files of a sandbox are data to a browser: no origin, no script, no cookie, no worker', async () => {
    const path = `/files?path=/tmp/a&signature=${sign({ path: '/tmp/a' })}`
    const { headers } = await ask({ path })
    assert.match(headers['content-security-policy'] ?? '', /^sandbox; default-src 'none'/)
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(headers['set-cookie'], undefined)
    assert.equal((await ask({ path, headers: { 'service-worker': 'script' } })).status, 403)
  })

  test('a host name with an invalid port is refused', async () => {
    for (const port of ['0', '-1', '65536', '1e3', '0x50', 'x', ''])
      assert.equal(
        (await ask({ path: '/health', headers: { 'e2b-sandbox-id': mine.id, 'e2b-sandbox-port': port } }))
          .status,
        port === '' ? 400 : 400,
        port,
      )
  })

  test('malformed addresses are a client’s error, not a server’s', async () => {
    for (const path of [
      'http://[bad',
      'http://x/files?signature=1',
      '//x/files?signature=1',
      '*',
      '/files?signature=%',
    ]) {
      const { status } = await ask({ path })
      assert.ok(status >= 400 && status < 500, `${path}: ${status}`)
    }
  })
})

describe('CP-09 a preview', () => {
  let boxed: Sandbox
  let open: Sandbox
  before(async () => {
    boxed = await front.engine.sandboxes.create({}, LOCAL)
    open = await front.engine.sandboxes.create({ ports: { public: true } }, LOCAL)
    for (const { id } of [boxed, open]) front.provider.inside(id).echoPorts.add(3000)
  })
  const cookieOf = (id: SandboxId): string => `agentpod_preview=${front.tokens.trafficToken(id)}`
  /** The port echoes what it gets, which is no HTTP: past the door is 502 port.broken, and not 403. */
  const passes = async (headers: Record<string, string>, domain?: string): Promise<boolean> => {
    const answer = await ask({ path: '/x', host: hostOf(boxed.id, 3000, domain), headers })
    if (answer.status === 403) assert.equal(errorOf(answer).reason, 'port.private')
    return answer.status !== 403
  }

  test('CP-09 a private preview opens to its token and its cookie', async () => {
    assert.ok(!(await passes({})))
    assert.ok(await passes({ 'e2b-traffic-access-token': front.tokens.trafficToken(boxed.id) }))
    assert.ok(await passes({ cookie: `a=b; ${cookieOf(boxed.id)}` }))
    for (const wrong of [
      { cookie: cookieOf(open.id) },
      { cookie: `x${cookieOf(boxed.id)}` },
      { 'e2b-traffic-access-token': front.tokens.dataToken(boxed.id) },
      { 'e2b-traffic-access-token': 'wrong', cookie: cookieOf(boxed.id) },
      withKey(admin),
    ])
      assert.ok(!(await passes(wrong)), JSON.stringify(Object.keys(wrong)))
  })

  test('CP-09 a preview does not take its cookie from another page, neighbours of one domain included', async () => {
    const cookie = cookieOf(boxed.id)
    const neighbour = `http://${hostOf(open.id, 3000, 'pods.test')}`
    for (const headers of [
      { origin: 'http://evil.test' },
      { origin: 'null' },
      { origin: neighbour },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' },
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'websocket', origin: neighbour },
    ])
      assert.ok(!(await passes({ cookie, ...headers }, 'pods.test')), JSON.stringify(headers))
    for (const headers of [
      { origin: `http://${hostOf(boxed.id, 3000, 'pods.test')}` },
      { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
      { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' },
    ])
      assert.ok(await passes({ cookie, ...headers }, 'pods.test'), JSON.stringify(headers))
  })

  test('API-5 CP-09 a preview trades a code for a cookie, once, on its own host', async () => {
    const code = front.codes.issue(`${boxed.id}:3000`)
    const path = `/_agentpod/open?code=${code}`
    const given = await ask({ path, host: hostOf(boxed.id, 3000) })
    assert.equal(given.status, 303)
    assert.equal(given.headers['location'], '/')
    const cookie = given.headers['set-cookie'] ?? ''
    assert.match(cookie, /^agentpod_preview=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Lax$/)
    assert.ok(!/domain/i.test(cookie))
    assert.ok(await passes({ cookie: cookie.split(';')[0] ?? '' }))
    assert.equal((await ask({ path, host: hostOf(boxed.id, 3000) })).status, 403)
    const other = front.codes.issue(`${boxed.id}:3001`)
    assert.equal(
      (await ask({ path: `/_agentpod/open?code=${other}`, host: hostOf(boxed.id, 3000) })).status,
      403,
    )
  })

  test('a preview of a program that speaks no HTTP is 502, and no failure of ours', async () => {
    const answer = await ask({ path: '/', host: hostOf(open.id, 3000) })
    assert.equal(answer.status, 502)
    assert.equal(errorOf(answer).reason, 'port.broken')
  })

  test('CP-09 a websocket to a preview needs the same token or cookie', async () => {
    const upgrade = (headers: Record<string, string>): Promise<TcpAnswer> =>
      ask({
        path: '/',
        host: hostOf(boxed.id, 3000, 'pods.test'),
        headers: { connection: 'upgrade', upgrade: 'websocket', ...headers },
        until: /^(?:GET|HTTP)[\s\S]*\r\n\r\n/,
      })
    const cookie = cookieOf(boxed.id)
    assert.equal((await upgrade({})).status, 403)
    assert.equal((await upgrade({ cookie, origin: 'http://evil.test' })).status, 403)
    const { raw } = await upgrade({ cookie, origin: `http://${hostOf(boxed.id, 3000, 'pods.test')}` })
    assert.match(raw, /^GET \/ HTTP\/1\.1/, 'the program inside got the request (and echoes it)')
    assert.ok(!raw.includes(front.tokens.trafficToken(boxed.id)), 'without the cookie that let it in')
  })
})

describe('limits', () => {
  test('requests past the rate get 429 with a time to retry, and the next second is new', async () => {
    await using small = await Front.open({ rate: { perSecond: 1, burst: 3 } })
    const [one, two] = [small.key(), small.key()]
    const get = (key: string): Promise<TcpAnswer> => ask({ path: '/v1/usage', headers: withKey(key) }, small)
    for (let i = 0; i < 3; i++) assert.equal((await get(one)).status, 200)
    const refused = await get(one)
    assert.equal(refused.status, 429)
    assert.equal(refused.headers['retry-after'], '1')
    assert.equal(errorOf(refused).reason, 'rate.requests')
    assert.equal((await get(two)).status, 200)
    await small.clock.advance(1000)
    assert.equal((await get(one)).status, 200)
    assert.equal((await ask({ path: '/health' }, small)).status, 204)
  })

  test('a key has a limit on sandboxes, which counts those that are being created', async () => {
    await using small = await Front.open({ living: 3 })
    const key = small.key()
    const create = (): Promise<TcpAnswer> =>
      ask({ method: 'POST', path: '/v1/sandboxes', headers: withKey(key), body: '{}' }, small)
    const answers = await Promise.all(Array.from({ length: 10 }, create))
    assert.equal(answers.filter(({ status }) => status === 201).length, 3)
    const refused = answers.find(({ status }) => status === 429)
    assert.equal(refused && errorOf(refused).reason, 'quota.living')
    assert.match(refused?.headers['retry-after'] ?? '', /^[1-9]\d*$/)
    const usage = JSON.parse((await ask({ path: '/v1/usage', headers: withKey(key) }, small)).text)
    assert.deepEqual([usage.living, usage.limits.living, usage.asked.memoryMib], [3, 3, 3 * 4096])
    const [first] = small.engine.sandboxes.list({ labels: {}, all: false }, LOCAL)
    await small.engine.sandboxes.destroy(first?.id ?? '', LOCAL)
    assert.equal((await create()).status, 201)
    await Promise.all(Array.from({ length: 5 }, () => small.engine.sandboxes.create({}, LOCAL)))
  })

  test('connections into one owner’s sandboxes are limited, and places are freed', async () => {
    await using small = await Front.open({ slots: 2 })
    const key = small.key()
    const { id } = await small.engine.sandboxes.create(
      { owner: small.keys.verify(key).owner },
      { owner: small.keys.verify(key).owner, isAdmin: false },
    )
    small.provider.inside(id).echoPorts.add(8080)
    const tunnel = (): Promise<{ text: string; socket: Socket }> =>
      new Promise((resolve, reject) => {
        const socket = connect(small.port, '127.0.0.1')
        socket.once('data', (data) => resolve({ text: String(data), socket })).once('error', reject)
        socket.write(
          `GET /agentpod/tunnel?port=8080 HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${key}\r\nagentpod-sandbox: ${id}\r\nconnection: upgrade\r\nupgrade: agentpod-tunnel\r\n\r\n`,
        )
      })
    const held = [await tunnel(), await tunnel()]
    for (const { text } of held) assert.match(text, /^HTTP\/1\.1 101/)
    assert.match((await tunnel()).text, /429[\s\S]*rate\.connections/)
    for (const { socket } of held) socket.destroy()
    await until('the slots are free', () => small.slots.size === 0)
    const again = await tunnel()
    assert.match(again.text, /^HTTP\/1\.1 101/)
    again.socket.destroy()
  })
})

describe('CP-18 a handler that throws', () => {
  const controls = {
    'at once': () => {
      throw new Error('inside secret')
    },
    'after a while': async () => {
      await new Promise((resolve) => setImmediate(resolve))
      throw new Error('inside secret')
    },
    'something that is no error': () => Promise.reject('inside secret'),
  }
  for (const [name, control] of Object.entries(controls)) {
    test(`CP-18 a handler that throws ${name} fails its own request and no other`, async () => {
      await using broken = await Front.open({ control })
      for (let i = 0; i < 3; i++) {
        const answer = await ask({ path: '/health' }, broken)
        assert.equal(answer.status, 500)
        assert.ok(!answer.raw.includes('inside secret'))
      }
      await until('it is in the log', () => broken.log.join('').includes('inside secret'))
    })
  }
})

describe('CP-16 a client that is slow', () => {
  const closed = (socket: Socket): Promise<number> => {
    const start = performance.now()
    return new Promise((resolve) => {
      socket
        .on('error', () => undefined)
        .on('close', () => resolve(performance.now() - start))
        .resume()
    })
  }
  test('CP-16 a client that is slow with its headers, with anything at all, or with an unwanted body is cut', async () => {
    await using strict = await Front.open({ limits: { headersMs: 400, restMs: 300 } })
    const open = (text: string): Socket => {
      const socket = connect(strict.port, '127.0.0.1')
      socket.write(text)
      return socket
    }
    const silent = connect(strict.port, '127.0.0.1')
    const dripping = open('GET / HTTP/1.1\r\n')
    const drip = setInterval(() => dripping.writable && dripping.write('x: y\r\n'), 50)
    const unwanted = open('POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n')
    const drop = setInterval(() => unwanted.writable && unwanted.write('x'), 50)
    const took = await Promise.all([silent, dripping, unwanted].map(closed))
    clearInterval(drip)
    clearInterval(drop)
    for (const ms of took) assert.ok(ms < 5000, `${ms}`)
    assert.equal((await ask({ path: '/health' }, strict)).status, 204)
  })

  test('CP-16 a slow client takes one of a bounded number of places', async () => {
    await using small = await Front.open({ limits: { connections: 5, headersMs: 500 } })
    const many = Array.from({ length: 20 }, () =>
      connect(small.port, '127.0.0.1').on('error', () => undefined),
    )
    await Promise.all(many.map(closed))
    assert.equal((await ask({ path: '/health' }, small)).status, 204)
  })

  test('CP-16 a refused upgrade does not keep its socket half open', async () => {
    const socket = connect({ port: front.port, host: '127.0.0.1', allowHalfOpen: true })
    socket.write('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n')
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    await new Promise((resolve) => socket.once('end', resolve))
    assert.match(text, /^HTTP\/1\.1 401/)
    await until('the server has let go', async () => {
      const count = await new Promise<number>((resolve) => front.server.getConnections((_, n) => resolve(n)))
      return count === 0
    })
    socket.destroy()
  })
})

describe('logs, metrics and audit', () => {
  test('each answer has an id that is in the log, and no client chooses it', async () => {
    const path = '/v1/sandboxes?label=secret%3Dquery'
    const answer = await ask({ path, headers: { ...withKey(), 'agentpod-request-id': 'mine' } })
    const id = answer.headers['agentpod-request-id'] ?? ''
    assert.match(id, /^[a-z0-9]{16}$/)
    await until('the line is there', () => front.log.some((line) => line.includes(id)))
    const line = JSON.parse(front.log.find((one) => one.includes(id)) ?? '{}')
    assert.deepEqual([line.method, line.route, line.status], ['GET', '/v1/sandboxes', 200])
    assert.equal(line.who, front.keys.verify(secret).owner)
  })

  test('CP-12 the log has no key, no token and no query', async () => {
    await ask({ path: `/v1/sandboxes/${secret}?x=${secret}`, headers: withKey() })
    await ask({ path: `/${secret}`, headers: withKey(`e2b_${'0'.repeat(40)}`) })
    await ask({
      path: '/files?path=/tmp/a',
      host: hostOf(mine.id, 49983),
      headers: { 'x-access-token': secret },
    })
    const all = front.log.join('')
    for (const word of [
      secret,
      admin,
      front.tokens.dataToken(mine.id),
      front.tokens.trafficToken(mine.id),
      'query',
    ])
      assert.ok(!all.includes(word))
    assert.ok(!front.metrics.text().includes(secret))
  })

  test('metrics are for admins, by route, with labels from a list that does not grow', async () => {
    assert.equal((await ask({ path: '/metrics' })).status, 401)
    assert.equal((await ask({ path: '/metrics', headers: withKey() })).status, 403)
    for (let i = 0; i < 30; i++) await ask({ path: `/nothing/${i}`, headers: withKey() })
    const { text, headers } = await ask({ path: '/metrics', headers: withKey(admin) })
    assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/)
    assert.match(
      text,
      /^agentpod_http_requests_total\{route="\/v1\/sandboxes",method="GET",status="200"\} \d+$/m,
    )
    assert.match(text, /^agentpod_http_request_seconds_bucket\{route="data",le="\+Inf"\} \d+$/m)
    assert.ok(!text.includes('/nothing'))
    assert.ok(!text.includes(mine.id))
  })

  test('the audit log, for admins, says who created, extended and ended what', async () => {
    const who = front.keys.verify(secret).owner
    const made = JSON.parse(
      (await ask({ method: 'POST', path: '/v1/sandboxes', headers: withKey(), body: '{}' })).text,
    ) as { id: string }
    await ask({
      method: 'POST',
      path: `/v1/sandboxes/${made.id}/extend`,
      headers: withKey(),
      body: '{"ttlMs":60000}',
    })
    await ask({ method: 'DELETE', path: `/v1/sandboxes/${made.id}`, headers: withKey(admin) })
    assert.equal((await ask({ path: '/v1/audit', headers: withKey() })).status, 403)
    const { text } = await ask({ path: '/v1/audit', headers: withKey(admin) })
    const entries = (JSON.parse(text) as { actor: string; action: string; subject: string }[])
      .filter(({ subject }) => subject === made.id)
      .map(({ actor, action }) => [actor, action])
    assert.deepEqual(entries, [
      [who, 'sandbox.create'],
      [who, 'sandbox.extend'],
      [front.keys.verify(admin).owner, 'sandbox.destroy'],
    ])
    assert.ok(!text.includes(secret))
  })
})
