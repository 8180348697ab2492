/** Group CP on a real server: over TCP, with real keys and real sandboxes, for every route there is. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { isE2bPath } from '../../src/api/e2b/error-response.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { assertNoToken } from '../support/canary.ts'
import { filesBelow } from '../support/files-below.ts'
import { Front } from '../support/front.ts'
import { NOT_LONG } from '../support/long.ts'
import { inside, outside, shell } from '../support/probe.ts'
import { rawRequest } from '../support/raw-http.ts'
import { errorOf, type TcpAnswer, type TcpRequest, tcpRequest } from '../support/tcp.ts'
import { isAlive, ROOT, until, World } from '../support/world.ts'

/** Falls on signals, so that CP-18 has something to catch: a hang-up on one, a bug on the other. */
const FALLING = `
process.on('SIGUSR2', () => { throw Object.assign(new Error('a peer hung up'), { code: 'ECONNRESET' }) })
process.on('SIGHUP', () => { Promise.reject(new Error('a bug nobody foresaw')) })
`

const world = new World({
  env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(FALLING)}` },
})
const client = world.client()
const socket = join(world.home, 'run', 'api.sock')

interface Route {
  readonly method: string
  readonly path: string
  readonly who: 'anyone' | 'key' | 'admin'
}

let port = 0
let routes: Route[] = []
let alice = ''
let bob = ''
let admin = ''
let aliceKeyId = ''
let theirs: { id: string }

async function local<T>(method: string, path: string, body?: object): Promise<T> {
  const answer = await rawRequest({
    socket,
    method,
    path,
    headers: { 'content-type': 'application/json' },
    ...(body && { body: Buffer.from(JSON.stringify(body)) }),
  })
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.body}`)
  const text = answer.body.toString('utf8')
  return JSON.parse(
    text.slice(text.indexOf('{') < 0 ? 0 : text.search(/[[{]/), text.search(/[\]}][^\]}]*$/) + 1),
  ) as T
}

/**
 * Retries: these tests ask faster than a key may, and a refusal may arrive while a large body is still being
 * sent.
 */
async function ask(o: Omit<TcpRequest, 'port'>): Promise<TcpAnswer> {
  for (let attempt = 0; ; attempt++) {
    const answer = await tcpRequest({ port, ...o }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') throw error
      return undefined
    })
    const isHurried =
      answer === undefined || (answer.status === 429 && answer.text.includes('may make 200 requests'))
    if (answer && !isHurried) return answer
    assert.ok(attempt < 50, `${o.path} is never answered`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
const newKey = (scope: string, ttlMs?: number): Promise<{ id: string; secret: string }> =>
  local('POST', '/v1/keys', { scope, ...(ttlMs && { ttlMs }) })

before(async () => {
  await client.list()
  port = (await local<{ port: number }>('POST', '/v1/server/listen', { port: 0 })).port
  const made = await newKey('sandboxes')
  alice = made.secret
  aliceKeyId = made.id
  bob = (await newKey('sandboxes')).secret
  admin = (await newKey('admin')).secret
  routes = await allRoutes()
  const created = await ask({
    method: 'POST',
    path: '/v1/sandboxes',
    headers: { 'x-api-key': bob },
    body: JSON.stringify({ name: 'bobs-box', labels: { team: 'bob' } }),
  })
  assert.equal(created.status, 201, created.text)
  theirs = JSON.parse(created.text) as { id: string }
})

after(() => world[Symbol.asyncDispose]())

/** Ours from the description that is checked in; E2B's, which it leaves out, from what is registered. */
async function allRoutes(): Promise<Route[]> {
  const { paths } = JSON.parse(readFileSync(join(ROOT, 'spec', 'api.openapi.json'), 'utf8')) as {
    paths: Record<string, Record<string, { 'x-agentpod-who': Route['who'] }>>
  }
  const ours = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, one]) => ({
      method: method.toUpperCase(),
      path,
      who: one['x-agentpod-who'],
    })),
  )
  await using front = await Front.open()
  const e2b = front.app.routes
    .filter(({ path }) => isE2bPath(path) && !path.endsWith('*'))
    .map(({ method, path }) => ({
      method: method === 'ALL' ? 'POST' : method,
      path: path.replaceAll(/:(\w+)/g, '{$1}'),
      who: 'key' as const,
    }))
  assert.ok(ours.length > 20)
  return [...ours, ...e2b]
}

/** A path with everything in its places: a sandbox's id where one goes. */
function filled(path: string, id: string): string {
  return path
    .replace(/\{(?:ref|id|sandboxID|sandboxId)\}/, id)
    .replace('{port}', '3000')
    .replace('{base}', 'host')
    .replaceAll(/\{\w+\}/g, 'x')
}

const serverLives = async (): Promise<void> => {
  assert.equal((await ask({ path: '/health' })).status, 204)
}

describe('CP-01 every route', () => {
  test('CP-01 the control: every route takes a good key', async () => {
    assert.equal((await ask({ path: '/v1/sandboxes', headers: { 'x-api-key': alice } })).status, 200)
    assert.equal((await ask({ path: '/v1/keys', headers: { 'x-api-key': admin } })).status, 200)
  })

  test('API-3 CP-01 every route is closed without a key, with a wrong, expired or revoked one, and with too small a scope', async () => {
    const expired = await newKey('admin', 1000)
    const revoked = await newKey('admin')
    await local('DELETE', `/v1/keys/${revoked.id}`)
    await until('the key has expired', async () =>
      ask({ path: '/v1/keys', headers: { 'x-api-key': expired.secret } }).then(
        ({ status }) => status === 401,
      ),
    )
    const bad: Record<string, Record<string, string>> = {
      none: {},
      empty: { 'x-api-key': '' },
      wrong: { 'x-api-key': `e2b_${'0'.repeat(40)}` },
      bearer: { authorization: `Bearer e2b_${'f'.repeat(40)}` },
      expired: { 'x-api-key': expired.secret },
      revoked: { 'x-api-key': revoked.secret },
      basic: { authorization: `Basic ${Buffer.from(`${admin}:`).toString('base64')}` },
      cookie: { cookie: `x-api-key=${admin}` },
    }
    for (const { method, path, who } of routes) {
      const at = filled(path, theirs.id)
      if (who === 'anyone') {
        assert.ok((await ask({ method, path: at })).status < 300, `${method} ${at} is open`)
        continue
      }
      for (const [name, headers] of Object.entries(bad)) {
        const { status, text } = await ask({ method, path: at, headers })
        assert.equal(status, 401, `${method} ${at} with ${name}: ${status} ${text}`)
      }
      if (who !== 'admin') continue
      const answer = await ask({ method, path: at, headers: { 'x-api-key': alice } })
      assert.deepEqual([answer.status, errorOf(answer).reason], [403, 'key.scope'], `${method} ${at}`)
    }
    assert.ok(isAlive(world.serverPid))
    assert.equal((await client.list()).length, 1, 'nothing was made and nothing ended')
  })

  test('API-3 CP-01 every route is closed in other spellings of its path and with other methods too', async () => {
    for (const path of [
      '//v1/keys',
      '/v1//keys',
      '/V1/keys',
      '/v1/keys/',
      '/./v1/keys',
      '/health/../v1/keys',
      '/docs/../v1/keys',
      '/health/%2e%2e/v1/keys',
      '/docs%2f..%2fv1/keys',
      '/health?/../v1/keys',
      '/docs#/v1/keys',
      '/openapi.json;/v1/keys',
      'http://localhost/v1/keys',
      'http://localhost/health/../v1/keys',
    ]) {
      const { status, text } = await ask({ path })
      assert.ok([204, 400, 401, 404].includes(status), `${path}: ${status}`)
      assert.ok(!text.includes(aliceKeyId), path)
    }
    for (const method of ['PUT', 'PATCH', 'OPTIONS', 'TRACE', 'HEAD', 'PROPFIND'])
      assert.ok([400, 401, 404, 405].includes((await ask({ method, path: '/v1/keys' })).status), method)
  })
})

describe('CP-02 a Host that is not ours', () => {
  const HOSTS = [
    'evil.test',
    `evil.test:1`,
    'localhost.evil.test',
    'localhost.',
    '127.1',
    '0.0.0.0',
    '169.254.169.254',
    'user@localhost',
    '[::ffff:127.0.0.1]',
    'lоcalhost',
    'x.localhost',
    '',
  ]
  test('API-3 CP-02 a foreign Host is refused for every route, with a key or without', async () => {
    for (const host of HOSTS) {
      for (const { method, path } of [
        ...routes.filter(({ who }) => who === 'anyone'),
        ...routes.slice(0, 3),
      ]) {
        const { status } = await ask({
          method,
          path: filled(path, theirs.id),
          host,
          headers: { 'x-api-key': admin },
        })
        assert.ok([400, 403].includes(status), `${host} ${method} ${path}: ${status}`)
      }
    }
    assert.equal((await ask({ path: '/health', host: null })).status, 400)
  })

  test('CP-02 the control: our own Host is accepted', async () => {
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, 'LOCALHOST'])
      assert.equal((await ask({ path: '/v1/sandboxes', host, headers: { 'x-api-key': alice } })).status, 200)
  })
})

describe('CP-03 a web page', () => {
  const FORMS = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']
  test('API-3 CP-03 a web page of another origin changes nothing, whatever its form', async () => {
    for (const origin of [
      'http://evil.test',
      'null',
      `http://localhost:${port + 1}`,
      `http://3000-${theirs.id}.localhost:${port}`,
    ]) {
      for (const type of FORMS) {
        for (const key of [{}, { 'x-api-key': alice }]) {
          const answer = await ask({
            method: 'POST',
            path: '/v1/sandboxes',
            headers: { origin, 'content-type': type, ...key },
            body: '{"name":"csrf"}',
          })
          assert.equal(answer.status, 403, `${origin} ${type}`)
        }
      }
    }
    assert.equal((await client.list()).length, 1)
  })

  test('CP-03 a web page changes nothing by GET either', async () => {
    const before = JSON.stringify(await client.list())
    for (const { path } of routes.filter(({ method, who }) => method === 'GET' && who !== 'anyone'))
      await ask({ path: filled(path, theirs.id), headers: { 'x-api-key': bob } })
    assert.equal(JSON.stringify(await client.list()), before)
  })

  test('CP-03 a web page gets no cookie from the API', async () => {
    for (const { method, path, who } of routes) {
      if (who === 'admin' || method !== 'GET') continue
      const { headers } = await ask({ path: filled(path, theirs.id), headers: { 'x-api-key': bob } })
      assert.equal(headers['set-cookie'], undefined, path)
    }
  })
})

test('API-3 CP-04 a WebSocket from another page, or with no key, is refused', async () => {
  const upgrade = (
    headers: Record<string, string>,
    path = '/agentpod/tunnel?port=3000',
  ): Promise<TcpAnswer> =>
    ask({
      path,
      headers: {
        connection: 'upgrade',
        upgrade: 'agentpod-tunnel',
        'agentpod-sandbox': theirs.id,
        ...headers,
      },
      until: /\r\n\r\n/,
    })
  assert.equal((await upgrade({})).status, 401)
  assert.equal((await upgrade({ 'x-api-key': 'wrong' })).status, 401)
  assert.equal((await upgrade({ 'x-api-key': bob, origin: 'http://evil.test' })).status, 403)
  assert.equal((await upgrade({ 'x-api-key': bob, origin: 'null' })).status, 403)
  assert.equal((await upgrade({ 'x-api-key': alice })).status, 404, 'nor with a key that does not own it')
  await startInside('python3 -m http.server 3000')
  await until(
    'the tunnel opens: the control',
    async () => (await upgrade({ 'x-api-key': bob })).status === 101,
  )
})

test('CP-05 no preflight and no answer allows another origin', async () => {
  for (const origin of ['http://evil.test', 'null', `http://localhost:${port}`]) {
    for (const { path } of routes) {
      for (const method of ['OPTIONS', 'GET']) {
        const { headers } = await ask({
          method,
          path: filled(path, theirs.id),
          headers: {
            origin,
            'access-control-request-method': 'POST',
            'access-control-request-headers': 'x-api-key',
          },
        })
        const allowed = Object.keys(headers).filter((name) => name.startsWith('access-control-'))
        assert.deepEqual(allowed, [], `${method} ${path} for ${origin}`)
      }
    }
  }
})

test('CP-06 an id, a name or a label that is a path or worse is refused everywhere', async () => {
  const HOSTILE = [
    '..%2f..%2fetc%2fpasswd',
    '%2e%2e',
    '%00',
    'a%00b',
    'a'.repeat(10_000),
    '%20',
    '%ff%fe',
    '%c0%ae%c0%ae',
    '__proto__',
    '%3Cimg%20src=x%3E',
    "'%20or%20'1'='1",
    '%0d%0aset-cookie:%20a=b',
    '*',
    '..;',
  ]
  for (const { method, path, who } of routes) {
    if (!path.includes('{') || method === 'DELETE') continue
    for (const hostile of HOSTILE) {
      const at = path.replaceAll(/\{\w+\}/g, hostile)
      const answer = await ask({
        method,
        path: at,
        headers: { 'x-api-key': who === 'admin' ? admin : alice },
        body: '{}',
      })
      assert.ok(
        [400, 403, 404, 405, 409, 422, 431, 501].includes(answer.status),
        `${method} ${at.slice(0, 80)}: ${answer.status}`,
      )
      assert.ok(!/root:x:|node:internal|\/src\//.test(answer.text), at.slice(0, 80))
      assert.equal(answer.headers['set-cookie'], undefined)
    }
  }
  for (const body of [
    { name: '../x' },
    { name: '<img>' },
    { name: 'a\u0000' },
    { name: 'A' },
    { labels: { '../x': 'y' } },
    { labels: { a: '\u0000' } },
    { labels: { a: 'x'.repeat(300) } },
    { environment: { workdir: '/a\nb' } },
  ]) {
    const answer = await ask({
      method: 'POST',
      path: '/v1/sandboxes',
      headers: { 'x-api-key': alice },
      body: JSON.stringify(body),
    })
    assert.equal(answer.status, 400, JSON.stringify(body))
  }
  await serverLives()
})

describe('CP-07 another owner’s sandbox', () => {
  /** What an owner may say there, so that it is the owner that decides and not the body. */
  const BODIES: Record<string, string> = {
    extend: '{"ttlMs":3600000}',
    timeout: '{"timeout":3600}',
    refreshes: '{"duration":60}',
    connect: '{"timeout":3600}',
  }
  /** Likewise what the address has to say. */
  const QUERIES: Record<string, string> = { changes: '?path=/home/user' }
  const last = (path: string): string => path.split('/').at(-1) ?? ''
  const bodyFor = (path: string): string => BODIES[last(path)] ?? '{}'
  const aimedAt = (path: string, ref: string): string => filled(path, ref) + (QUERIES[last(path)] ?? '')
  const aimed = (): Route[] =>
    routes.filter(({ path, who }) => who === 'key' && /\/sandboxes\/\{\w+\}/.test(path))

  test('API-3 CP-07 another owner’s sandbox is as unknown as one that never was, on every route and by its name', async () => {
    assert.ok(aimed().length >= 7)
    for (const { method, path } of aimed()) {
      const answers = []
      for (const ref of [
        theirs.id,
        'abcdefgh12345678',
        ...(path.startsWith('/v1/') ? ['bobs-box', 'nobodys-box'] : []),
      ]) {
        const { status, text } = await ask({
          method,
          path: aimedAt(path, ref),
          headers: { 'x-api-key': alice },
          body: bodyFor(path),
        })
        answers.push(`${status} ${text.replaceAll(ref, 'REF')}`)
      }
      assert.equal(new Set(answers).size, 1, `${method} ${path}: ${answers.join('\n')}`)
      assert.match(answers[0] ?? '', /^(?:404|501) /, `${method} ${path}`)
    }
    const { state, deadlineAt } = (await client.list())[0] ?? {}
    assert.equal(state, 'running')
    assert.ok(Date.parse(deadlineAt ?? '') > 0)
  })

  test('CP-07 another owner’s sandbox is not in a list, a usage or a data plane', async () => {
    for (const path of [
      '/v1/sandboxes',
      '/v1/sandboxes?all=true',
      '/v1/sandboxes?label=team%3Dbob&all=true',
      '/v1/sandboxes?name=bobs-box',
      '/v1/usage',
      '/v2/sandboxes',
      '/sandboxes',
    ]) {
      const { text } = await ask({ path, headers: { 'x-api-key': alice } })
      assert.ok(!text.includes(theirs.id) && !text.includes('bobs-box'), path)
    }
    for (const ref of [theirs.id, 'bobs-box']) {
      const { status } = await ask({
        path: '/files?path=/etc/passwd',
        headers: { 'x-api-key': alice, 'agentpod-sandbox': ref },
      })
      assert.equal(status, 404)
    }
  })

  test('CP-07 the control: the owner’s sandbox is found', async () => {
    for (const path of aimed().filter(({ method, path: at }) => method === 'GET' && at.startsWith('/v1/'))) {
      const { status } = await ask({ path: aimedAt(path.path, theirs.id), headers: { 'x-api-key': bob } })
      assert.equal(status, 200, path.path)
    }
    const { status } = await ask({
      path: '/files?path=/etc/passwd',
      headers: { 'x-api-key': bob, 'agentpod-sandbox': theirs.id },
    })
    assert.equal(status, 200)
  })

  test('CP-07 another owner’s sandbox takes as long to be not found as one that never was', async () => {
    const median = async (ref: string): Promise<number> => {
      const times: number[] = []
      for (let i = 0; i < 31; i++) {
        const start = performance.now()
        await ask({ path: `/v1/sandboxes/${ref}`, headers: { 'x-api-key': alice } })
        times.push(performance.now() - start)
      }
      return times.sort((a, b) => a - b)[15] ?? 0
    }
    const [theirsMs, nobodysMs] = [await median(theirs.id), await median('abcdefgh12345678')]
    assert.ok(Math.abs(theirsMs - nobodysMs) < 5, `${theirsMs} ms and ${nobodysMs} ms`)
  })
})

/** Starts a program that stays. */
async function startInside(command: string): Promise<void> {
  await shell(await client.get(theirs.id), `setsid nohup ${command} >/dev/null 2>&1 </dev/null &`)
}

async function sandboxOf(key: string): Promise<Sandbox> {
  assert.ok(key)
  return client.get(theirs.id)
}

describe('CP-09 a preview', () => {
  let box: Sandbox
  const PAGE = `
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    self.send_response(200)
    self.send_header('content-type', 'application/json')
    self.send_header('set-cookie', 'wide=1; Domain=localhost; Path=/')
    self.send_header('set-cookie', 'agentpod_preview=stolen; Path=/')
    self.send_header('set-cookie', 'own=1; Path=/')
    self.end_headers()
    self.wfile.write(json.dumps(dict(self.headers)).encode())
  def log_message(self, *a): pass
http.server.HTTPServer(('127.0.0.1', 8000), H).serve_forever()
`
  before(async () => {
    box = await sandboxOf(bob)
    await box.writeFile('/home/user/page.py', Buffer.from(PAGE))
    await startInside('python3 /home/user/page.py')
  })
  const host = (): string => `8000-${theirs.id}.localhost:${port}`

  test('API-5 CP-09 a preview opens by a code that works once, and the page never sees the HttpOnly cookie of its host', async () => {
    assert.equal((await ask({ path: '/', host: host() })).status, 403, 'private at first')
    const address = await local<{ openUrl: string }>('POST', `/v1/sandboxes/${theirs.id}/ports/8000`)
    const url = new URL(address.openUrl)
    assert.equal(url.host, host())
    assert.notEqual(url.hostname, 'localhost', 'another origin than the API')
    const path = url.pathname + url.search
    const opened = await ask({ path, host: host() })
    const cookie = opened.headers['set-cookie'] ?? ''
    assert.match(cookie, /^agentpod_preview=\w+; Path=\/; HttpOnly; SameSite=Lax$/)
    assert.equal((await ask({ path, host: host() })).status, 403, 'once')
    const pair = cookie.split(';')[0] ?? ''
    let page: TcpAnswer | undefined
    await until('the page answers', async () => {
      page = await ask({
        path: '/',
        host: host(),
        headers: {
          cookie: `a=b; ${pair}; c=d`,
          'x-api-key': bob,
          'e2b-traffic-access-token': pair.split('=')[1] ?? '',
          authorization: `Bearer ${bob}`,
        },
      })
      return page.status === 200
    })
    const { text = '', raw = '' } = page ?? {}
    for (const word of [bob, pair.split('=')[1] ?? ''])
      assert.ok(!text.includes(word), 'the page saw what let its visitor in')
    assert.match(text, /a=b; c=d/, 'the control: its own cookies it sees')
    assert.match(raw, /set-cookie: own=1; Path=\//)
    assert.match(raw, /set-cookie: wide=1; Path=\//, 'for its own host, not for the domain')
    assert.ok(!raw.includes('stolen'))
    assert.equal(
      (await ask({ path: '/', host: host(), headers: { cookie: pair, origin: 'http://evil.test' } })).status,
      403,
    )
    assert.equal(
      (await ask({ path: '/v1/sandboxes', headers: { cookie: pair } })).status,
      401,
      'it opens no API',
    )
  })

  test('CP-09 a file that is opened on the API’s origin has no origin and runs nothing', async () => {
    await box.writeFile('/home/user/evil.html', Buffer.from('<script>alert(1)</script>'))
    const { status, headers } = await ask({
      path: '/files?path=/home/user/evil.html',
      headers: { 'x-api-key': bob, 'agentpod-sandbox': theirs.id },
    })
    assert.equal(status, 200)
    assert.match(headers['content-security-policy'] ?? '', /^sandbox/)
    assert.equal(headers['x-content-type-options'], 'nosniff')
  })
})

test('CP-10 names from people and sandboxes are text on every page', async () => {
  const EVIL = '<img src=x onerror=alert(1)>'
  const made = await ask({
    method: 'POST',
    path: '/v1/sandboxes',
    headers: { 'x-api-key': bob },
    body: JSON.stringify({ labels: { evil: EVIL, __proto: EVIL }, environment: { workdir: `/${EVIL}` } }),
  })
  const PAGES: Omit<TcpRequest, 'port'>[] = [
    { path: '/docs' },
    { path: `/docs?${encodeURIComponent(EVIL)}` },
    { path: `/${encodeURIComponent(EVIL)}`, headers: { 'x-api-key': bob, accept: 'text/html' } },
    { path: `/v1/sandboxes/${encodeURIComponent(EVIL)}`, headers: { 'x-api-key': bob, accept: 'text/html' } },
    { path: '/v1/sandboxes', headers: { 'x-api-key': bob, accept: 'text/html' } },
    { path: '/', host: `3000-abcdefgh12345678.localhost:${port}`, headers: { accept: 'text/html' } },
    {
      path: `/${EVIL.replaceAll(' ', '%20')}`,
      host: `3000-${theirs.id}.localhost:${port}`,
      headers: { accept: 'text/html' },
    },
    { path: '/', headers: { 'e2b-sandbox-id': EVIL, accept: 'text/html' } },
  ]
  for (const page of PAGES) {
    const { headers, text, status } = await ask(page)
    const isHtml = (headers['content-type'] ?? '').includes('html')
    if (isHtml) assert.ok(!text.includes('<img') && !/<script/i.test(text), `${page.path}: ${text}`)
    else
      assert.match(
        headers['content-type'] ?? 'application/json',
        /^application\/json/,
        `${page.path}: ${status}`,
      )
    assert.match(headers['content-security-policy'] ?? '', /default-src 'none'/, page.path)
    assert.ok(!(headers['content-security-policy'] ?? '').includes('script-src'), page.path)
  }
  const docs = await ask({ path: '/docs' })
  assert.equal(docs.status, 200)
  assert.equal(docs.headers['x-content-type-options'], 'nosniff')
  assert.ok(!/unsafe-inline|unsafe-eval/.test(docs.headers['content-security-policy'] ?? ''))
  if (made.status === 201)
    await ask({
      method: 'DELETE',
      path: `/v1/sandboxes/${(JSON.parse(made.text) as { id: string }).id}`,
      headers: { 'x-api-key': bob },
    })
})

test('CP-12 no file, log, process or answer of the server has a key or a token', async () => {
  const secrets = [alice, bob, admin]
  await ask({ path: `/v1/sandboxes?key=${admin}`, headers: { 'x-api-key': alice } })
  await ask({ path: `/v1/sandboxes/${admin}`, headers: { 'x-api-key': alice } })
  await ask({ path: '/v1/sandboxes', headers: { 'x-api-key': `${admin}x` } })
  const texts: [string, string][] = [
    ['/metrics', (await ask({ path: '/metrics', headers: { 'x-api-key': admin } })).text],
    ['/v1/audit', (await ask({ path: '/v1/audit', headers: { 'x-api-key': admin } })).text],
    ['/v1/keys', (await ask({ path: '/v1/keys', headers: { 'x-api-key': admin } })).text],
  ]
  for (const name of filesBelow(world.home)) {
    const path = join(world.home, name)
    if (/^(?:layers|s|sandboxes|run\/s)\//.test(name)) continue
    const info = statSync(path, { throwIfNoEntry: false })
    if (info === undefined || info.size > 64 << 20) continue
    texts.push([name, readFileSync(path, 'latin1')])
    if (/\.db|\.log|\.json/.test(name)) assert.equal(info.mode & 0o077, 0, `${name} is for its owner alone`)
  }
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      texts.push([`arguments of ${pid}`, readFileSync(`/proc/${pid}/cmdline`, 'latin1')])
    } catch {
      // It has ended.
    }
  }
  assert.ok(
    texts.some(([name]) => name.endsWith('state.db')) && texts.some(([name]) => name.endsWith('server.log')),
  )
  for (const [name, text] of texts) {
    for (const secret of secrets) {
      assertNoToken(text, secret, name)
      assert.ok(!text.includes(secret.slice(4)), name)
    }
  }
  const kept = texts.find(([name]) => name.endsWith('server.log'))?.[1] ?? ''
  assert.match(kept, /"route":"\/v1\/sandboxes"/, 'the control: requests are in the log')
  const dropped = join(world.home, 'logs', 'planted')
  writeFileSync(dropped, `planted ${alice}`)
  assert.throws(
    () => assertNoToken(readFileSync(dropped, 'utf8'), alice, 'planted'),
    'the control: the search finds one',
  )
})

describe('CP-15 a request', () => {
  const rss = (): number =>
    Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${world.serverPid}/status`, 'utf8'))?.[1] ?? 0) / 1024

  test('API-3 CP-15 a request that is too large, too deep, poisoned or odd is refused, and memory stays as it was', async () => {
    const earlier = rss()
    const BAD = [
      '['.repeat(100_000) + ']'.repeat(100_000),
      `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`,
      '{"__proto__":{"isAdmin":true}}',
      '{"metadata":{"__proto__":"x"}}',
      '{"labels":{"constructor":"x"}}',
      '{"environment":{"variables":{"prototype":"x"}}}',
      '{"\\u005f_proto__":{}}',
      '{"name":"a1","name":"b1"}',
      '{"resources":{"memoryMib":NaN}}',
      '{"labels":{"a":"\\ud800"}}',
      '[]',
      '"x"',
      '1',
      'null',
      `{"name":"${'a'.repeat(5 << 20)}"}`,
    ]
    /** E2B passes over what it does not know. */
    const BAD_FOR_US = [
      '{"resources":{"memoryMib":1e999}}',
      '{"resources":{"cpus":-0.0001}}',
      '{"lifetime":{"ttlMs":9007199254740993}}',
    ]
    for (let round = 0; round < 3; round++) {
      for (const { method, path, who } of routes.filter(
        (one) => one.method === 'POST' && !/stop|clear|bases|ports|resume|pause/.test(one.path),
      )) {
        for (const body of isE2bPath(path) ? BAD : [...BAD, ...BAD_FOR_US]) {
          const { status } = await ask({
            method,
            path: filled(path, theirs.id),
            headers: { 'x-api-key': who === 'admin' ? admin : bob },
            body,
          })
          assert.ok(
            [400, 404, 409, 413, 422, 429, 501].includes(status),
            `${method} ${path} ${body.slice(0, 40)}: ${status}`,
          )
        }
      }
    }
    assert.equal((await client.list()).length, 1)
    assert.ok(rss() - earlier < 150, `the server grew by ${(rss() - earlier).toFixed(0)} MiB`)
    const good = await ask({
      method: 'POST',
      path: `/v1/sandboxes/${theirs.id}/extend`,
      headers: { 'x-api-key': bob },
      body: '{"ttlMs":3600000}',
    })
    assert.equal(good.status, 200, 'the control: a good body is taken')
  })

  test('CP-15 a request with endless headers is refused', async () => {
    const { status } = await ask({ path: '/health', headers: { x: 'a'.repeat(64 * 1024) } })
    assert.ok([400, 431].includes(status))
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`x-${i}`, 'y'.repeat(20)]))
    assert.ok([204, 400, 431].includes((await ask({ path: '/health', headers: many })).status))
    await serverLives()
  })
})

test('API-3 CP-16 three hundred slow clients take nobody’s place and are gone after a while', {
  skip: NOT_LONG,
}, async () => {
  const HEADS = [
    '',
    'GET /health HTTP/1.1\r\nhost: localhost\r\n',
    'POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{',
    `POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${bob}\r\ncontent-length: 100000\r\n\r\n{`,
    'GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
  ]
  const open = new Set<Socket>()
  for (let i = 0; i < 300; i++) {
    const slow = connect({ port, host: '127.0.0.1', allowHalfOpen: i % 2 === 0 })
    slow
      .on('error', () => undefined)
      .on('close', () => open.delete(slow))
      .resume()
    slow.write(HEADS[i % HEADS.length] ?? '')
    open.add(slow)
  }
  const drip = setInterval(() => {
    for (const slow of open) if (slow.writable) slow.write('x')
  }, 1000)
  const start = performance.now()
  for (let i = 0; i < 20; i++) await serverLives()
  assert.ok(performance.now() - start < 3000, 'others are served meanwhile')
  try {
    // Those with a key and a body that drips have half a minute; everybody else half of that.
    await until('the slow are gone', () => open.size === 0, 90_000)
  } finally {
    clearInterval(drip)
    for (const slow of open) slow.destroy()
  }
})

describe('CP-20 from inside a sandbox', () => {
  const PROBE = (at: number, path: string): string => `
import socket
def tcp(host):
  def work():
    s = socket.create_connection((host, ${at}), 2)
    s.sendall(b'GET /health HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n')
    if b'204' not in s.recv(100): raise OSError(errno.EPROTO, 'no answer')
  return work
def unix():
  s = socket.socket(socket.AF_UNIX); s.connect(${JSON.stringify(path)})
def safely(work):
  try: return attempt(work)
  except Exception as e: return type(e).__name__
tell([safely(tcp(h)) for h in ['127.0.0.1', '::1', 'localhost', '0.0.0.0', '10.0.0.1', 'host.docker.internal', '169.254.1.1']] + [safely(unix)])
`
  test('CP-20 the API cannot be reached from inside a sandbox, by TCP or by its socket, with or without a key', async () => {
    const box = await sandboxOf(bob)
    const sudo = await client.create({ environment: { sudo: true } })
    for (const one of [box, sudo]) {
      const answers = await inside<string[]>(one, PROBE(port, socket))
      assert.ok(!answers.includes('ok'), answers.join())
    }
    const seen = await shell(
      box,
      `env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; ls -la ${world.home} /run 2>&1`,
    )
    for (const secret of [alice, bob, admin]) assert.ok(!seen.includes(secret))
    await sudo.destroy()
  })

  test('CP-20 the control: the same probe gets through outside', async () => {
    const answers = await outside<string[]>(PROBE(port, socket))
    assert.equal(answers[0], 'ok')
    assert.equal(answers.at(-1), 'ok')
  })
})

describe('CP-18 uncaught exceptions', () => {
  test('CP-18 an exception after a peer hung up is logged, and the server keeps running', async () => {
    const pid = world.serverPid
    process.kill(pid, 'SIGUSR2')
    const log = join(world.home, 'logs', 'server.log')
    await until('it is in the log', () => readFileSync(log, 'utf8').includes('a peer hung up'))
    await serverLives()
    assert.equal(world.serverPid, pid)
  })

  test('CP-18 an exception that is a bug ends the server with a log entry; sandboxes keep running and the next call starts another', async () => {
    const pid = world.serverPid
    process.kill(pid, 'SIGHUP')
    await until('it has left', () => !isAlive(pid))
    assert.match(
      readFileSync(join(world.home, 'logs', 'server.log'), 'utf8'),
      /leaving: unhandled rejection[\s\S]*a bug nobody foresaw/,
    )
    assert.deepEqual(
      (await client.list()).map(({ id, state }) => [id, state]),
      [[theirs.id, 'running']],
    )
    assert.notEqual(world.serverPid, pid)
    assert.equal(await shell(await client.get(theirs.id), 'echo still here'), 'still here\n')
  })
})
