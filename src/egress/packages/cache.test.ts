import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Server } from 'node:https'
import { createServer as createRaw, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, beforeEach, describe, test } from 'node:test'
import { connect as connectTls, createServer as createTls } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { FakeClock } from '../../testing/fake-clock.ts'
import { systemClock } from '../../util/clock.ts'
import { systemRandom } from '../../util/random.ts'
import { makeCertificate } from '../../util/x509/certificate.ts'
import { type EgressFixture, readAll, readUntil, SANDBOX, testPolicy } from '../testing/egress-fixture.ts'
import {
  ADDRESS,
  get,
  http2Client,
  openTlsFixture,
  SANDBOX_AUTHORITY,
  SITE_AUTHORITY,
  secureClient,
  sendRaw,
  site,
  TEST_PLACEHOLDER,
  testSecret,
} from '../testing/tls-fixture.ts'
import { PackageCache } from './cache.ts'
import { HEAD_BYTES } from './cache-file.ts'
import { PackageWriter } from './writer.ts'

const HOST = 'registry.example.com'
const EVIL = 'evil.example.com'
const MIB = 1024 * 1024
const HIT = /X-AgentPod-Cache: hit/i
const log = { info() {}, warn() {}, error() {} }

const tarball = (name: string): string => `/${name}/-/${name}-1.0.0.tgz`
const urlOf = (path: string, host = HOST): string => `https://${host}:443${path}`
const hashOf = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex')
const bodyOf = (answer: string): string => answer.slice(answer.indexOf('\r\n\r\n') + 4)

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + 5000; !isSo(); ) {
    if (performance.now() > end) assert.fail(what)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

describe('the cache of packages', () => {
  const root = mkdtempSync(join(tmpdir(), 'packages-'))
  const stages: EgressFixture[] = []
  let directory = ''
  let packages: PackageCache
  let asked: string[]
  let answer: (req: IncomingMessage, res: ServerResponse) => void
  let count = 0

  beforeEach(() => {
    directory = join(root, String(count++), 'packages')
    packages = new PackageCache({ directory, limitBytes: 64 * MIB, log })
    asked = []
    answer = (req, res) => void res.end(`the bytes of ${req.url}`)
  })
  afterEach(async () => {
    for (const stage of stages.splice(0)) {
      assert.deepEqual(stage.errors, [])
      await stage.close()
    }
  })
  after(() => rmSync(root, { recursive: true, force: true }))

  type StageParts = NonNullable<Parameters<typeof openTlsFixture>[0]>
  const sandboxOf = async (o: StageParts = {}): Promise<EgressFixture> => {
    const stage = await openTlsFixture({
      rules: [HOST, EVIL],
      secrets: [],
      isAllOpened: true,
      packages,
      ...o,
      spec: { cache: true, ...o.spec },
    })
    stages.push(stage)
    return stage
  }
  const registry = (stage: EgressFixture, host = HOST, address = ADDRESS): Promise<Server> =>
    site(
      stage,
      (req, res) => {
        asked.push(`${req.method} ${req.url}`)
        req.on('error', () => undefined)
        answer(req, res)
      },
      { host, address },
    )
  /** A sandbox, and a registry that it may reach. */
  const begin = async (o: StageParts = {}): Promise<EgressFixture> => {
    const stage = await sandboxOf(o)
    await registry(stage)
    return stage
  }
  const download = async (
    stage: EgressFixture,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    host = HOST,
  ): Promise<string> => sendRaw(await secureClient(stage, { host }), get(path, headers, host))
  const fileOf = (url: string): string => join(directory, hashOf(url))
  const files = (): string[] => (existsSync(directory) ? readdirSync(directory) : [])
  const kept = (url: string): Promise<void> => until(`${url} is kept`, () => existsSync(fileOf(url)))
  /** Downloads a file and waits for it to be kept. */
  const prime = async (stage: EgressFixture, path: string): Promise<string> => {
    const text = await download(stage, path)
    assert.match(text, /^HTTP\/1\.1 200 /)
    assert.doesNotMatch(text, HIT)
    await kept(urlOf(path))
    return text
  }
  /** Whatever was to be kept before is kept or dropped when a file that was asked for later is there. */
  const settled = async (stage: EgressFixture): Promise<void> => {
    const [before, path] = [answer, tarball(`control${count++}`)]
    answer = (_, res) => void res.end('control')
    await prime(stage, path)
    await until('nothing is unfinished', () => !files().some((name) => name.startsWith('.tmp-')))
    answer = before
  }

  describe('answers', () => {
    test('a cached package is served without its server', async () => {
      const stage = await sandboxOf()
      const server = await registry(stage)
      answer = (_, res) => {
        res.setHeader('Content-Type', 'application/octet-stream')
        res.setHeader('ETag', '"abc"')
        res.setHeader('Last-Modified', 'Thu, 01 Jan 2026 00:00:00 GMT')
        res.setHeader('X-Other', 'not said again')
        res.setHeader('X-AgentPod-Cache', 'hit')
        res.end('the bytes')
      }
      await prime(stage, tarball('one'))
      const again = await download(stage, tarball('one'))
      assert.match(again, /^HTTP\/1\.1 200 OK\r\n/)
      for (const line of [
        /^Content-Type: application\/octet-stream\r$/m,
        /^ETag: "abc"\r$/m,
        /^Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r$/m,
        /^Content-Length: 9\r$/m,
        HIT,
      ])
        assert.match(again, line)
      assert.doesNotMatch(again, /X-Other/)
      assert.equal(bodyOf(again), 'the bytes')
      assert.deepEqual(asked, [`GET ${tarball('one')}`])
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      assert.equal(bodyOf(await download(stage, tarball('one'))), 'the bytes')
      assert.match(await download(stage, tarball('two')), /^HTTP\/1\.1 502 /)
    })

    test('a cached package is served to another sandbox, over HTTP/2, through the proxy, and repeatedly', async () => {
      await prime(await begin(), tarball('one'))
      const other = await sandboxOf()
      const session = await http2Client(other, HOST)
      const stream = session.request({ ':path': tarball('one') })
      const headers = await new Promise<Record<string, unknown>>((resolve) =>
        stream.once('response', resolve),
      )
      let body = ''
      for await (const chunk of stream.setEncoding('utf8')) body += chunk
      session.destroy()
      assert.equal(headers['x-agentpod-cache'], 'hit')
      assert.equal(body, `the bytes of ${tarball('one')}`)
      const socket = await other.podd.proxy()
      socket.write(`CONNECT ${HOST}:443 HTTP/1.1\r\nHost: ${HOST}:443\r\n\r\n`)
      await readUntil(socket, '\r\n\r\n')
      const tls = connectTls({ socket, servername: HOST, ca: SANDBOX_AUTHORITY.cert })
      const keepAlive = get(tarball('one'), { Connection: 'keep-alive' }, HOST)
      const said = await sendRaw(tls, `${keepAlive}${keepAlive}${get(tarball('one'), {}, HOST)}`)
      assert.equal(said.split(`the bytes of ${tarball('one')}`).length, 4)
      assert.equal(asked.length, 1)
      assert.deepEqual([other.asked, other.dialled], [[], []])
    })

    test('a large file from a chunked body is served completely from the cache', async () => {
      const body = systemRandom.bytes(5 * MIB + 17)
      answer = (_, res) => {
        for (let at = 0; at < body.length; at += MIB) res.write(body.subarray(at, at + MIB))
        res.end()
      }
      const stage = await begin()
      assert.match(await prime(stage, tarball('one')), /Transfer-Encoding: chunked/)
      const again = await download(stage, tarball('one'))
      assert.match(again, HIT)
      assert.match(again, new RegExp(`Content-Length: ${body.length}\r`))
      assert.equal(hashOf(Buffer.from(bodyOf(again), 'latin1')), hashOf(Buffer.from(body)))
    })

    test('only Debian files are cached without TLS', async () => {
      const stage = await sandboxOf({ rules: [HOST] })
      const server = createServer((req, res) => {
        asked.push(req.url ?? '')
        res.end('plain')
      })
      stage.name(HOST, [ADDRESS])
      await stage.place(ADDRESS, 80, server)
      const plain = async (path: string): Promise<string> => {
        const socket = await stage.podd.proxy()
        socket.write(`GET http://${HOST}${path} HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`)
        return readAll(socket)
      }
      const deb = '/pool/main/h/hello/hello_1.0_all.deb'
      const index = `/dists/stable/main/by-hash/SHA256/${hashOf('plain')}`
      const wrong = `/dists/stable/main/by-hash/SHA256/${hashOf('other')}`
      for (const path of [tarball('one'), wrong, index, deb]) assert.match(await plain(path), /plain$/)
      for (const path of [index, deb]) await kept(`http://${HOST}:80${path}`)
      assert.deepEqual(files().length, 2)
      for (const path of [index, deb]) assert.match(await plain(path), HIT)
      for (const path of [tarball('one'), wrong]) assert.doesNotMatch(await plain(path), HIT)
      const direct = await stage.podd.direct({ name: HOST, port: 80 })
      direct.write(get(deb, {}, HOST))
      assert.match(await readAll(direct), HIT)
    })

    test('the target of a redirect is cached, never the redirect', async () => {
      const stage = await begin()
      const [path, target] = ['/api/v1/crates/one/1.0.0/download', '/crates/one/one-1.0.0.crate']
      answer = (req, res) =>
        void (req.url === path ? res.writeHead(302, { Location: target }).end() : res.end('crate'))
      for (let n = 0; n < 2; n++) assert.match(await download(stage, path), /^HTTP\/1\.1 302 /)
      await prime(stage, target)
      assert.match(await download(stage, path), /^HTTP\/1\.1 302 /)
      assert.match(await download(stage, target), HIT)
      assert.equal(existsSync(fileOf(urlOf(path))), false)
    })
  })

  describe('is not for', () => {
    test('a sandbox that may not reach the host or path gets no cached file', async () => {
      await prime(await begin(), tarball('one'))
      const [refused, narrow, open] = [
        await sandboxOf({ rules: [EVIL] }),
        await sandboxOf({ rules: [{ host: HOST, paths: ['/two/**'] }] }),
        await sandboxOf({ rules: [{ host: HOST, paths: ['/one/**'] }] }),
      ]
      for (const stage of [refused, narrow]) {
        const said = await download(stage, tarball('one'))
        assert.match(said, /^HTTP\/1\.1 403 [\s\S]*rule\.none/)
        assert.doesNotMatch(said, /the bytes/)
        assert.deepEqual(stage.asked, [])
      }
      assert.match(await download(open, tarball('one')), HIT)
    })

    test('a sandbox without the cache option does not use the cache', async () => {
      const stage = await begin({ spec: { cache: false } })
      await download(stage, tarball('one'))
      await prime(await begin(), tarball('two'))
      assert.equal(files().length, 1)
      assert.doesNotMatch(await download(stage, tarball('two')), HIT)
      stage.change({ cache: true })
      assert.match(await download(stage, tarball('two')), HIT)
    })

    test('a sandbox that may not reach the original address gets no cached file', async () => {
      const stage = await sandboxOf({ rules: [{ host: HOST, private: true }] })
      await registry(stage, HOST, '10.9.9.9')
      await prime(stage, tarball('one'))
      const publicOnly = await sandboxOf({ rules: [HOST] })
      publicOnly.name(HOST, ['10.9.9.9'])
      const said = await download(publicOnly, tarball('one'))
      assert.match(said, /^HTTP\/1\.1 403 [\s\S]*address\.private/)
      assert.doesNotMatch(said, /the bytes/)
      const denying = testPolicy([{ host: HOST, private: true }], {
        addresses: { allowed: [], denied: ['10.0.0.0/8'] },
      })
      stage.change({ policy: denying })
      assert.match(await download(stage, tarball('one')), /^HTTP\/1\.1 403 [\s\S]*address\.denied/)
      stage.change({ policy: testPolicy([{ host: HOST, private: true }]) })
      assert.match(await download(stage, tarball('one')), HIT)
    })

    const WRITTEN: Readonly<Record<string, (path: string) => string>> = {
      'a credential': (path) => get(path, { Authorization: 'Bearer x' }, HOST),
      'a cookie': (path) => get(path, { Cookie: 'a=b' }, HOST),
      'a credential of another name': (path) => get(path, { 'Private-Token': 'x' }, HOST),
      'a word for once': (path) => get(path, { 'npm-otp': '123456' }, HOST),
      'a range': (path) => get(path, { Range: 'bytes=0-3' }, HOST),
      'a condition': (path) => get(path, { 'If-None-Match': '"abc"' }, HOST),
      'a condition of time': (path) =>
        get(path, { 'If-Modified-Since': 'Thu, 01 Jan 2026 00:00:00 GMT' }, HOST),
      'a length': (path) => get(path, { 'Content-Length': '0' }, HOST),
      'a body': (path) => `${get(path, { 'Content-Length': '3' }, HOST)}abc`,
      'a body in chunks': (path) =>
        `${get(path, { 'Transfer-Encoding': 'chunked' }, HOST)}3\r\nabc\r\n0\r\n\r\n`,
      'another method': (path) => get(path, { 'Content-Length': '0' }, HOST).replace('GET', 'POST'),
      HEAD: (path) => get(path, {}, HOST).replace('GET', 'HEAD'),
      'a query': (path) => get(`${path}?a=b`, {}, HOST),
      'a word in the query that tells who asks': (path) => get(`${path}?token=b`, {}, HOST),
      'another spelling of the path': (path) => get(path.replace('/-/', '//-/'), {}, HOST),
      'a dot segment': (path) => get(path.replace('/-/', '/./-/'), {}, HOST),
      'a host that somebody forwards for': (path) => get(path, { 'X-Forwarded-Host': EVIL }, HOST),
      'another URL': (path) => get(path, { 'X-Original-URL': '/evil' }, HOST),
      'another method in a header': (path) => get(path, { 'X-HTTP-Method-Override': 'HEAD' }, HOST),
      'an origin': (path) => get(path, { Origin: `https://${EVIL}` }, HOST),
      'a header that nobody knows': (path) => get(path, { 'X-Unknown': '1' }, HOST),
    }
    for (const [what, write] of Object.entries(WRITTEN))
      test(`a request with ${what} is neither served from the cache nor cached`, async () => {
        const stage = await begin()
        await prime(stage, tarball('known'))
        asked.length = 0
        const send = async (path: string): Promise<string> =>
          sendRaw(await secureClient(stage, { host: HOST }), write(path))
        assert.doesNotMatch(await send(tarball('known')), HIT)
        await send(tarball('fresh'))
        // Of the query and the other spelling, something else may be kept: under that, and never under this.
        await settled(stage)
        assert.equal(existsSync(fileOf(urlOf(tarball('fresh')))), false)
        assert.ok(asked.length === 3 || /spelling|dot/.test(what), asked.join())
        assert.match(await download(stage, tarball('known')), HIT)
      })

    test('a host with a secret or a header rule is not cached', async () => {
      const bound = await begin({ secrets: [testSecret({ hosts: [HOST] })] })
      await download(bound, tarball('one'), { Authorization: `Bearer ${TEST_PLACEHOLDER}` })
      await download(bound, tarball('one'))
      const ruled = await begin({
        spec: { headers: [{ host: HOST, headers: { 'User-Agent': 'the team' } }] },
      })
      let agent: string | undefined
      answer = (req, res) => {
        agent = req.headers['user-agent']
        res.end('theirs')
      }
      await download(ruled, tarball('one'))
      assert.equal(agent, 'the team')
      const free = await begin()
      await settled(free)
      assert.equal(existsSync(fileOf(urlOf(tarball('one')))), false)
      await prime(free, tarball('one'))
      for (const stage of [bound, ruled]) assert.doesNotMatch(await download(stage, tarball('one')), HIT)
      const elsewhere = await begin({ secrets: [testSecret({ hosts: ['api.example.com'] })] })
      assert.match(await download(elsewhere, tarball('one')), HIT, 'the control: a secret of another host')
    })
  })

  describe('asks', () => {
    test('ENV-8 a sandbox chooses the URL of a cached request and nothing else of it', async () => {
      let raw: string[] = []
      answer = (req, res) => {
        raw = req.rawHeaders
        res.end(`for ${req.headers['user-agent']}`)
      }
      const stage = await begin()
      await download(stage, tarball('one'), {
        'User-Agent': 'npm/10 <script>',
        Accept: 'text/html',
        'Accept-Encoding': 'gzip',
        'Accept-Language': 'tlh',
        'npm-session': 'abc',
        Referer: 'https://evil.example.com/',
      })
      await kept(urlOf(tarball('one')))
      assert.deepEqual(raw, [
        ...['Host', HOST, 'Accept', '*/*', 'Accept-Encoding', 'identity', 'User-Agent', 'AgentPod'],
        ...['Connection', 'keep-alive'],
      ])
      assert.match(await download(stage, tarball('one'), { 'User-Agent': 'other' }), /for AgentPod$/)
    })

    test('a server that refuses the fixed headers gets the original ones, uncached', async () => {
      const stage = await begin()
      answer = (req, res) => {
        if (req.headers['user-agent'] === 'npm/10') return void res.end('for npm')
        res.writeHead(403)
        res.write('x'.repeat(100_000))
        setTimeout(() => res.end(), 50)
      }
      const said = await download(stage, tarball('one'), { 'User-Agent': 'npm/10' })
      assert.match(said, /^HTTP\/1\.1 200 [\s\S]*for npm/)
      assert.match(await download(stage, tarball('one'), { 'User-Agent': 'curl' }), /^HTTP\/1\.1 403 /)
      assert.equal(asked.length, 4)
      await settled(stage)
      assert.equal(existsSync(fileOf(urlOf(tarball('one')))), false)
    })
  })

  describe('keeps', () => {
    /** Bytes of a server, and whether the file is kept. */
    const ok = (headers: string, body = 'bytes'): string =>
      `HTTP/1.1 200 OK\r\nConnection: close\r\n${headers}\r\n${body}`
    const chunked = (headers: string, body: string): string =>
      ok(`Transfer-Encoding: chunked\r\n${headers}`, body)
    const length = 'Content-Length: 5\r\n'
    const packed = gzipSync('bytes').toString('latin1')
    const ANSWERS: readonly (readonly [string, string, boolean])[] = [
      ['with a length', ok(length), true],
      ['in chunks', chunked('', '5\r\nbytes\r\n0\r\n\r\n'), true],
      ['that varies by packing alone', ok(`${length}Vary: Accept-Encoding\r\n`), true],
      ['that varies by origin', ok(`${length}Vary: Origin, Accept-Encoding\r\n`), true],
      ['that is public', ok(`${length}Cache-Control: public, max-age=365000000, immutable\r\n`), true],
      ['that is said to be packed in no way', ok(`${length}Content-Encoding: identity\r\n`), true],
      ['without a length', ok(''), false],
      ['with a length that is longer', ok('Content-Length: 6\r\n'), false],
      ['with a length that is shorter', ok('Content-Length: 4\r\n'), false],
      ['in chunks that do not end', chunked('', '5\r\nbytes\r\n'), false],
      ['in chunks that break off', chunked('', '9\r\nbytes'), false],
      ['in chunks that are none', chunked('', '5\r\nbytes\r\nzz\r\n'), false],
      ['in chunks with a trailer', chunked('', '5\r\nbytes\r\n0\r\nX-A: b\r\n\r\n'), false],
      ['in chunks of nothing', chunked('', '0\r\n\r\n'), false],
      ['of nothing', ok('Content-Length: 0\r\n', ''), false],
      ['with two lengths', ok(`${length}Content-Length: 4\r\n`), false],
      ['with a length and chunks', chunked(length, '5\r\nbytes\r\n0\r\n\r\n'), false],
      ['with a cookie', ok(`${length}Set-Cookie: a=b\r\n`), false],
      ['not to be stored', ok(`${length}Cache-Control: max-age=5, No-Store\r\n`), false],
      ['for one client', ok(`${length}Cache-Control: private\r\n`), false],
      ['for one client, in part', ok(`${length}Cache-Control: private="x"\r\n`), false],
      ['that varies by everything', ok(`${length}Vary: *\r\n`), false],
      ['that varies by client', ok(`${length}Vary: Accept-Encoding, User-Agent\r\n`), false],
      ['that is packed', ok(`Content-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n`, packed), false],
      ['that is a page', ok(`${length}Content-Type: text/html; charset=utf-8\r\n`), false],
      ['that is a part', ok(`${length}Content-Range: bytes 0-4/9\r\n`), false],
      ['of status 206', ok(length).replace('200 OK', '206 Partial Content'), false],
      ['of status 203', ok(length).replace('200 OK', '203 Other'), false],
      ['of status 404', ok(length).replace('200 OK', '404 Not Found'), false],
      ['of status 500', ok(length).replace('200 OK', '500 Error'), false],
      ['larger than anything', ok('Content-Length: 2000000000\r\n'), false],
      ['larger than the cache', ok(`Content-Length: ${65 * MIB}\r\n`, 'x'.repeat(65 * MIB)), false],
    ]
    const rawSite = async (
      stage: EgressFixture,
      say: (socket: Socket, path: string) => void,
    ): Promise<void> => {
      const parts = { now: systemClock.now(), random: systemRandom }
      const server = createTls(makeCertificate(SITE_AUTHORITY, [EVIL], parts), (socket) => {
        socket.on('error', () => socket.destroy())
        socket.once('data', (chunk: Buffer) => say(socket, chunk.toString('latin1').split(' ')[1] ?? ''))
      })
      stage.name(EVIL, ['192.0.2.66'])
      await stage.place('192.0.2.66', 443, server)
    }
    for (const [what, bytes, isKept] of ANSWERS)
      test(`the cache ${isKept ? 'stores a response' : 'stores no response'} ${what}`, async () => {
        const stage = await begin()
        let times = 0
        await rawSite(stage, (socket) => {
          times++
          socket.end(bytes, 'latin1')
        })
        const url = urlOf(tarball('one'), EVIL)
        await download(stage, tarball('one'), {}, EVIL)
        if (isKept) await kept(url)
        await settled(stage)
        assert.equal(existsSync(fileOf(url)), isKept)
        const again = await download(stage, tarball('one'), {}, EVIL)
        assert.equal(HIT.test(again), isKept)
        assert.equal(times, isKept ? 1 : 2)
        if (isKept) assert.equal(bodyOf(again), 'bytes')
      })

    test('a download that the server or the client cuts off is not cached', async () => {
      const stage = await begin()
      let finish = (): void => undefined
      await rawSite(stage, (socket, path) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n')
        socket.write('x'.repeat(200_000))
        finish = () => void (path.includes('broken') ? socket.destroy() : socket.end('x'.repeat(200_000)))
      })
      const start = async (name: string) => {
        const client = await secureClient(stage, { host: EVIL })
        client.on('error', () => undefined)
        client.write(get(tarball(name), {}, EVIL))
        client.resume()
        await until('it is being written', () => files().some((file) => file.startsWith('.tmp-')))
        return client
      }
      await start('broken')
      finish()
      await until('it is dropped', () => files().length === 0)
      const client = await start('left')
      client.destroy()
      await until('it is dropped', () => files().length === 0)
      await start('whole')
      finish()
      await kept(urlOf(tarball('whole'), EVIL))
    })

    test('cache files are private, in a directory that only the owner can write to', async () => {
      const stage = await begin()
      await prime(stage, tarball('one'))
      assert.equal(statSync(directory).mode & 0o777, 0o700)
      assert.equal(statSync(fileOf(urlOf(tarball('one')))).mode & 0o777, 0o600)
      chmodSync(directory, 0o777)
      await download(stage, tarball('two'))
      await new Promise((resolve) => setTimeout(resolve, 100))
      assert.equal(existsSync(fileOf(urlOf(tarball('two')))), false)
    })

    test('two simultaneous downloads store one file and do not wait for each other', async () => {
      const stage = await begin()
      const waiting: ServerResponse[] = []
      answer = (_, res) => {
        res.writeHead(200, { 'Content-Length': 9 })
        res.write('the ')
        waiting.push(res)
      }
      const downloads = Array.from({ length: 8 }, () => download(stage, tarball('one')))
      await until('all are under way', () => waiting.length === 8)
      for (const res of waiting) res.end('bytes')
      for (const text of await Promise.all(downloads)) assert.equal(bodyOf(text), 'the bytes')
      await until('one is left', () => files().length === 1)
      assert.equal(bodyOf(await download(stage, tarball('one'))), 'the bytes')
      assert.equal(asked.length, 8)
    })

    test('a cached file that is being served is not changed by its replacement', async () => {
      const stage = await begin()
      const [first, second] = [Buffer.alloc(8 * MIB, 'a'), Buffer.alloc(8 * MIB, 'b')]
      answer = (_, res) => void res.end(first)
      await prime(stage, tarball('one'))
      const slow = await secureClient(stage, { host: HOST })
      slow.write(get(tarball('one'), {}, HOST))
      await readUntil(slow, '\r\n\r\n')
      rmSync(fileOf(urlOf(tarball('one'))))
      answer = (_, res) => void res.end(second)
      await prime(stage, tarball('one'))
      const rest = await readAll(slow)
      assert.doesNotMatch(rest, /b/)
      assert.match(rest, /a$/)
    })
  })

  describe('does not give out', () => {
    const change = async (url: string, write: (path: string) => void | Promise<void>): Promise<void> => {
      await write(fileOf(url))
    }
    const flip = (at: number) => async (path: string) => {
      const file = await open(path, 'r+')
      const byte = Buffer.alloc(1)
      await file.read(byte, 0, 1, at)
      byte[0] = (byte[0] ?? 0) ^ 1
      await file.write(byte, 0, 1, at)
      await file.close()
    }
    const DAMAGES: Readonly<Record<string, (path: string) => void | Promise<void>>> = {
      'another first byte': flip(HEAD_BYTES),
      'another last byte': (path) => flip(statSync(path).size - 1)(path),
      'a byte too few': (path) => truncateSync(path, statSync(path).size - 1),
      'a byte too many': (path) => writeFileSync(path, 'x', { flag: 'a' }),
      'nothing in it': (path) => truncateSync(path, 0),
      'half a head': (path) => truncateSync(path, HEAD_BYTES / 2),
      'a head that is no JSON': (path) => flip(0)(path),
      'a head of something else': (path) => {
        const bytes = readFileSync(path)
        bytes.fill(' ', 0, HEAD_BYTES - 1)
        bytes.write('{"url":7}')
        writeFileSync(path, bytes)
      },
      'a header with a line break': (path) => {
        const bytes = readFileSync(path)
        const head = JSON.parse(bytes.toString('utf8', 0, HEAD_BYTES))
        bytes.fill(' ', 0, HEAD_BYTES - 1)
        bytes.write(JSON.stringify({ ...head, headers: [['X', 'a\r\nX-Evil: 1']] }))
        writeFileSync(path, bytes)
      },
      'the file of another URL': (path) => copyFileSync(fileOf(urlOf(tarball('other'))), path),
    }
    for (const [what, damage] of Object.entries(DAMAGES))
      test(`a cached file with ${what} is not served and is removed`, async () => {
        const stage = await begin()
        const body = 'a'.repeat(600_000)
        answer = (req, res) => void res.end(`${req.url} ${body}`)
        await prime(stage, tarball('other'))
        await prime(stage, tarball('one'))
        await change(urlOf(tarball('one')), damage)
        const said = await download(stage, tarball('one'))
        const isWhole = bodyOf(said) === `${tarball('one')} ${body}`
        const announced = Number(/Content-Length: (\d+)/.exec(said)?.[1])
        if (HIT.test(said)) assert.ok(bodyOf(said).length < announced, 'what is wrong is never whole')
        else assert.ok(isWhole)
        assert.doesNotMatch(said, /X-Evil/)
        if (!isWhole) {
          await until('it is removed', () => !existsSync(fileOf(urlOf(tarball('one')))))
          assert.equal(bodyOf(await prime(stage, tarball('one'))), `${tarball('one')} ${body}`)
        }
        await kept(urlOf(tarball('one')))
        await settled(stage)
        const again = await download(stage, tarball('one'))
        assert.match(again, HIT)
        assert.equal(bodyOf(again), `${tarball('one')} ${body}`)
      })

    test('ENV-8 bytes of one host are never given out under the URL of another, whatever a request says', async () => {
      const stage = await begin()
      const registered = urlOf(tarball('one'))
      await site(stage, (_, res) => void res.end('evil bytes'), { host: EVIL, address: '192.0.2.66' })
      const plain = createServer((_, res) => void res.end('evil bytes'))
      await stage.place('192.0.2.66', 80, plain)
      const path = tarball('one')
      const line = (target: string, headers: string): string =>
        `GET ${target} HTTP/1.1\r\n${headers}Connection: close\r\n\r\n`
      const attempts = [
        line(path, `Host: ${EVIL}\r\nX-Forwarded-Host: ${HOST}\r\n`),
        line(path, `Host: ${EVIL}\r\nForwarded: host=${HOST}\r\n`),
        line(path, `Host: ${EVIL}\r\nX-Host: ${HOST}\r\n`),
        line(path, `Host: ${EVIL}\r\nX-Original-URL: https://${HOST}${path}\r\n`),
        line(path, `Host: ${HOST}\r\n`),
        line(path, `Host: ${EVIL}\r\nHost: ${HOST}\r\n`),
        line(path, `Host: ${HOST}\r\nHost: ${EVIL}\r\n`),
        line(`https://${HOST}${path}`, `Host: ${EVIL}\r\n`),
        line(`https://${EVIL}${path}`, `Host: ${HOST}\r\n`),
        line(`https://${HOST}${path}`, `Host: ${HOST}\r\n`),
        line(`https://${HOST}@${EVIL}${path}`, `Host: ${EVIL}\r\n`),
        line(`//${HOST}${path}`, `Host: ${EVIL}\r\n`),
        line(`/https://${HOST}:443${path}`, `Host: ${EVIL}\r\n`),
        line(`/..//${HOST}${path}`, `Host: ${EVIL}\r\n`),
        line(path, `Host: ${EVIL}\r\nConnection: host\r\n`),
      ]
      for (const text of attempts) await sendRaw(await secureClient(stage, { host: EVIL }), text)
      for (const text of attempts) {
        const socket = await stage.podd.proxy()
        socket.write(text.replace('https:', 'http:'))
        await readAll(socket)
      }
      const session = await http2Client(stage, EVIL)
      session.on('error', () => undefined)
      for (const headers of [{ ':authority': HOST }, { ':authority': EVIL, host: HOST }]) {
        const stream = session.request({ ':path': path, ...headers })
        stream.on('error', () => undefined).resume()
        await new Promise((resolve) => stream.once('close', resolve))
      }
      session.destroy()
      await settled(stage)
      assert.equal(existsSync(fileOf(registered)), false)
      for (const name of files())
        if (readFileSync(join(directory, name), 'latin1').includes('evil'))
          assert.match(
            readFileSync(join(directory, name), 'latin1'),
            new RegExp(`^\\{"url":"https?://${EVIL}:`),
          )
      assert.equal(bodyOf(await prime(stage, path)), `the bytes of ${path}`)
      assert.equal(bodyOf(await download(stage, path)), `the bytes of ${path}`)
      await download(stage, path, {}, EVIL)
      await kept(urlOf(path, EVIL))
      assert.equal(bodyOf(await download(stage, path, {}, EVIL)), 'evil bytes', 'the control: its own URL')
    })
  })

  describe('counts', () => {
    test('a cached response counts like one of the server, in records, counts and budgets', async () => {
      const stage = await begin()
      answer = (_, res) => void res.end('x'.repeat(1000))
      await prime(stage, tarball('one'))
      const before = stage.egress.counts(SANDBOX)
      await download(stage, tarball('one'))
      const now = stage.egress.counts(SANDBOX)
      assert.equal(now.allowed - before.allowed, 1)
      assert.equal(now.bytesIn - before.bytesIn, 1000)
      await until('there is a record', () => stage.records.length > 0)
      assert.ok(stage.records.every(({ verdict, host }) => verdict === 'allowed' && host === HOST))

      const limited = await sandboxOf({ rules: [{ host: HOST, budget: { bytes: 1500 } }] })
      assert.equal(bodyOf(await download(limited, tarball('one'))).length, 1000)
      assert.ok(bodyOf(await download(limited, tarball('one'))).length < 1000)
      assert.match(await download(limited, tarball('one')), /^HTTP\/1\.1 429 [\s\S]*budget\.bytes/)
      const slow = await sandboxOf({ rules: [{ host: HOST, budget: { requestsPerMinute: 1 } }] })
      assert.match(await download(slow, tarball('one')), HIT)
      assert.match(await download(slow, tarball('one')), /^HTTP\/1\.1 429 [\s\S]*budget\.rate/)
    })

    test('I7: a cached response in progress is cut when the rules change', async () => {
      const stage = await begin()
      answer = (_, res) => void res.end(Buffer.alloc(32 * MIB, 'x'))
      await prime(stage, tarball('one'))
      const read = async (then: () => void): Promise<number> => {
        const client = await secureClient(stage, { host: HOST })
        client.on('error', () => undefined)
        client.write(get(tarball('one'), {}, HOST))
        await readUntil(client, '\r\n\r\n')
        then()
        return (await readAll(client)).length
      }
      assert.ok((await read(() => stage.change({ policy: testPolicy([HOST, EVIL]) }))) > 31 * MIB)
      assert.ok((await read(() => stage.change({ policy: testPolicy([EVIL]) }))) < 31 * MIB)
    })
  })

  describe('makes room', () => {
    test('the cache removes the least recently used files', async () => {
      packages = new PackageCache({ directory, limitBytes: 4 * (HEAD_BYTES + 100_000), log })
      const stage = await begin()
      answer = (_, res) => void res.end('x'.repeat(100_000))
      const names = ['one', 'two', 'three', 'four']
      for (const name of names) await prime(stage, tarball(name))
      const now = systemClock.now() / 1000
      for (const [at, name] of names.entries()) {
        const usedAt = now - 86_400 + at * 60
        utimesSync(fileOf(urlOf(tarball(name))), usedAt, usedAt)
      }
      assert.match(await download(stage, tarball('one')), HIT)
      await prime(stage, tarball('five'))
      const isThere = (name: string): boolean => existsSync(fileOf(urlOf(tarball(name))))
      await until('there is room', () => !isThere('two') && !isThere('three'))
      assert.deepEqual([...names, 'five'].filter(isThere), ['one', 'four', 'five'])
      assert.match(await download(stage, tarball('one')), HIT)
    })

    test('files of an earlier process count, and its unfinished files are removed', async () => {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      const [old, draft] = [join(directory, 'ab'.repeat(32)), join(directory, '.tmp-abc')]
      writeFileSync(old, 'x'.repeat(150_000))
      writeFileSync(draft, 'x')
      utimesSync(old, 1, 1)
      await packages.sweep()
      assert.deepEqual([existsSync(old), existsSync(draft)], [true, false])
      packages = new PackageCache({ directory, limitBytes: 200_000, log })
      const stage = await begin()
      answer = (_, res) => void res.end('x'.repeat(100_000))
      await prime(stage, tarball('one'))
      await until('the old one is gone', () => !existsSync(old))
      assert.match(await download(stage, tarball('one')), HIT)
    })

    test('the use of a cached file is recorded once an hour', async () => {
      const stage = await begin()
      await prime(stage, tarball('one'))
      const usedAt = (): number => Math.round(statSync(fileOf(urlOf(tarball('one')))).mtimeMs / 1000)
      const now = Math.round(systemClock.now() / 1000)
      for (const [ago, isTouched] of [
        [1800, false],
        [7200, true],
      ] as const) {
        utimesSync(fileOf(urlOf(tarball('one'))), now - ago, now - ago)
        assert.match(await download(stage, tarball('one')), HIT)
        assert.equal(usedAt() > now - ago, isTouched)
      }
    })
  })

  describe('that cannot be written to', () => {
    test('a cache that cannot be written does not affect downloads and is retried later', async () => {
      let now = systemClock.now()
      const clock = { now: () => now, after: systemClock.after }
      writeFileSync(join(root, 'file'), '')
      directory = join(root, 'file', 'packages')
      packages = new PackageCache({ directory, limitBytes: 64 * MIB, log, clock })
      const stage = await begin()
      for (let n = 0; n < 3; n++)
        assert.equal(bodyOf(await download(stage, tarball('one'))), `the bytes of ${tarball('one')}`)
      assert.equal(asked.length, 3)
      rmSync(join(root, 'file'))
      await download(stage, tarball('one'))
      await new Promise((resolve) => setTimeout(resolve, 50))
      assert.equal(existsSync(directory), false, 'it rests')
      now += 61_000
      await prime(stage, tarball('one'))
      assert.match(await download(stage, tarball('one')), HIT)
    })

    test('a full disk does not affect downloads and leaves no files behind', async (t) => {
      const mount = join(root, 'small')
      mkdirSync(mount)
      try {
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=0700', 'tmpfs', mount], { stdio: 'ignore' })
      } catch {
        return t.skip('no file system can be mounted here')
      }
      try {
        directory = join(mount, 'packages')
        packages = new PackageCache({ directory, limitBytes: 64 * MIB, log })
        const stage = await begin()
        let finish = (): void => undefined
        answer = (_, res) => {
          res.writeHead(200, { 'Content-Length': 2 * MIB })
          res.write(Buffer.alloc(MIB, 'a'))
          finish = () => void res.end(Buffer.alloc(MIB, 'b'))
        }
        const downloading = download(stage, tarball('one'))
        await until('it is being written', () => files().length === 1)
        await new Promise((resolve) => setTimeout(resolve, 50))
        // What others write takes the room that there was when it began.
        assert.throws(() => writeFileSync(join(mount, 'other'), Buffer.alloc(4 * MIB)), /ENOSPC/)
        finish()
        assert.equal(bodyOf(await downloading).length, 2 * MIB)
        await until('nothing is left', () => files().length === 0)
        rmSync(join(mount, 'other'))
        const fresh = new PackageCache({ directory, limitBytes: 64 * MIB, log })
        packages = fresh
        const other = await begin()
        answer = (_, res) => void res.end(Buffer.alloc(8 * MIB))
        assert.equal(bodyOf(await download(other, tarball('large'))).length, 8 * MIB)
        answer = (_, res) => void res.end('small')
        await prime(other, tarball('small'))
        assert.equal(files().length, 1)
      } finally {
        execFileSync('umount', ['-l', mount])
      }
    })

    test('a disk that hangs delays a download briefly, and the file is not cached', async () => {
      mkdirSync(directory, { recursive: true })
      const draft = join(directory, '.tmp-slow')
      const opening = Promise.withResolvers<void>()
      const clock = new FakeClock()
      const writer = new PackageWriter({
        answer: { url: urlOf(tarball('one')), headers: [] },
        mostBytes: 64 * MIB,
        clock,
        draft,
        path: join(directory, 'whole'),
        open: async () => {
          await opening.promise
          return open(draft, 'wx')
        },
        onStored: () => assert.fail('it is not kept'),
      })
      let relieved = 0
      writer.onRelief(() => relieved++)
      const closed = new Promise((done) => writer.once('close', done))
      while (!writer.isBehind) writer.add(Buffer.alloc(MIB / 4))
      assert.ok(writer.writableLength <= 2 * MIB)
      await clock.advance(1900)
      assert.deepEqual([relieved, writer.isBehind], [0, true])
      await clock.advance(200)
      assert.equal(writer.isBehind, false)
      assert.ok(relieved > 0)
      writer.add(Buffer.alloc(MIB))
      writer.finish()
      opening.resolve()
      await closed
      assert.deepEqual(readdirSync(directory), [])
    })

    test('a slow disk buffers a bounded number of bytes', async () => {
      mkdirSync(directory, { recursive: true })
      const draft = join(directory, '.tmp-flooded')
      const writer = new PackageWriter({
        answer: { url: urlOf(tarball('one')), headers: [] },
        mostBytes: 64 * MIB,
        clock: systemClock,
        draft,
        path: join(directory, 'whole'),
        open: () => open(draft, 'wx'),
        onStored: () => assert.fail('it is not kept'),
      })
      const closed = new Promise((done) => writer.once('close', done))
      for (let n = 0; n < 64; n++) writer.add(Buffer.alloc(MIB / 2))
      assert.equal(writer.destroyed, true)
      assert.ok(writer.writableLength <= 3 * MIB)
      await closed
      assert.deepEqual(readdirSync(directory), [])
    })
  })

  test('the cache keeps a bounded number of files open; the rest comes from the server', async () => {
    const stage = await begin()
    await prime(stage, tarball('one'))
    const held = await Promise.all(Array.from({ length: 300 }, () => packages.find(urlOf(tarball('one')))))
    const found = held.filter((one) => one !== undefined)
    assert.equal(found.length, 256)
    assert.doesNotMatch(await download(stage, tarball('one')), HIT)
    for (const one of found) one.close()
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.match(await download(stage, tarball('one')), HIT)
  })

  test('a file from a server with a wrong certificate is not cached', async () => {
    const stage = await sandboxOf()
    const parts = { now: systemClock.now(), random: systemRandom }
    const impostor = createTls(makeCertificate(SITE_AUTHORITY, [EVIL], parts), (socket) => {
      socket.on('error', () => socket.destroy())
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
    })
    stage.name(HOST, [ADDRESS])
    await stage.place(ADDRESS, 443, impostor)
    assert.match(await download(stage, tarball('one')), /^HTTP\/1\.1 502 [\s\S]*upstream\.tls/)
    const plain = createRaw((socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'))
    await stage.place(ADDRESS, 443, plain)
    assert.match(await download(stage, tarball('one')), /^HTTP\/1\.1 502 /)
    assert.deepEqual(files(), [])
  })
})
