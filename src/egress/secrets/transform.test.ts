import assert from 'node:assert/strict'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Server } from 'node:https'
import type { Duplex } from 'node:stream'
import { after, before, beforeEach, describe, test } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { BoundSecret } from '../../core/secret.ts'
import { encodedForms } from '../../secrets/encoded-forms.ts'
import type { EgressFixture } from '../testing/egress-fixture.ts'
import {
  ADDRESS,
  get,
  HOST,
  http2Client,
  openTlsFixture,
  post,
  secureClient,
  sendRaw,
  site,
  TEST_PLACEHOLDER,
  testSecret,
  VALUE,
} from '../testing/tls-fixture.ts'
import { readFrameHead, serverFrame, unmask } from './websocket-frame.ts'

const BEARER = { Authorization: `Bearer ${TEST_PLACEHOLDER}` }

/** What arrived at the site, whole. */
interface Arrived {
  readonly head: string
  body: string
}

function unchunked(said: string): string {
  let rest = said.slice(said.indexOf('\r\n\r\n') + 4)
  let body = ''
  for (;;) {
    const [size = '0'] = rest.split('\r\n', 1)
    const length = Number.parseInt(size, 16)
    if (length === 0) return body
    body += rest.slice(size.length + 2, size.length + 2 + length)
    rest = rest.slice(size.length + 2 + length + 2)
  }
}

/** A client's frame, masked as the protocol wants it. */
function clientFrame(payload: string, o: { opcode?: number; isLast?: boolean } = {}): Buffer {
  const frame = serverFrame(o.opcode ?? 1, o.isLast ?? true, Buffer.from(payload))
  const size = frame.length - Buffer.byteLength(payload)
  const mask = Buffer.from([1, 2, 3, 4])
  const head = Buffer.from(frame.subarray(0, size))
  head[1] = (head[1] ?? 0) | 0x80
  return Buffer.concat([head, mask, unmask(frame.subarray(size), mask)])
}

describe('a site that has a secret', () => {
  let stage: EgressFixture
  let server: Server
  const arrived: Arrived[] = []
  let answer: (req: IncomingMessage, res: ServerResponse) => void

  before(async () => {
    stage = await openTlsFixture()
    server = await site(stage, (req, res) => {
      const entry: Arrived = { head: `${req.method} ${req.url}\n${req.rawHeaders.join('\n')}`, body: '' }
      arrived.push(entry)
      req.on('data', (chunk: Buffer) => {
        entry.body += chunk.toString('latin1')
      })
      req.on('error', () => undefined)
      answer(req, res)
    })
    await site(
      stage,
      (req, res) => {
        arrived.push({ head: req.rawHeaders.join('\n'), body: '' })
        res.end('other')
      },
      { host: 'other.example.com', address: '192.0.2.11' },
    )
    const plain = createHttp((req, res) => {
      arrived.push({ head: req.rawHeaders.join('\n'), body: '' })
      res.end('plain')
    })
    stage.name('plain.example.com', ['192.0.2.12'])
    await stage.place('192.0.2.12', 80, plain)
    stage.name(HOST, [ADDRESS])
    const plainApi = createHttp((req, res) => {
      arrived.push({ head: req.rawHeaders.join('\n'), body: '' })
      res.end('in the clear')
    })
    await stage.place(ADDRESS, 80, plainApi)
  })
  after(() => stage.close())
  beforeEach(() => {
    arrived.length = 0
    // As servers do: one that answers before it has read the request says nothing about what was let through.
    answer = (req, res) => void req.on('end', () => res.end('fine'))
    stage.change({ secrets: [testSecret()] })
  })
  const ask = async (bytes: string | Buffer): Promise<string> => sendRaw(await secureClient(stage), bytes)

  test('NET-12 a site gets the value of its secret in the slot, and only there', async () => {
    assert.match(await ask(get('/v1', BEARER)), /^HTTP\/1\.1 200 .*fine$/s)
    assert.equal(arrived.length, 1)
    assert.match(arrived[0]?.head ?? '', new RegExp(`Authorization\nBearer ${VALUE.replace('+', '\\+')}`))
    assert.ok(!arrived[0]?.head.includes(TEST_PLACEHOLDER))
  })

  test('a request without a credential is sent unchanged', async () => {
    assert.match(await ask(get('/public')), /fine$/)
    assert.ok(!arrived[0]?.head.toLowerCase().includes('authorization'))
  })

  test('a secret works bare and as the password of Basic authorization', async () => {
    stage.change({ secrets: [testSecret({ header: 'x-api-key', scheme: { kind: 'bare' } })] })
    await ask(get('/', { 'X-Api-Key': TEST_PLACEHOLDER }))
    assert.match(arrived.at(-1)?.head ?? '', new RegExp(`X-Api-Key\n${VALUE.replace('+', '\\+')}`))
    stage.change({ secrets: [testSecret({ scheme: { kind: 'basic', user: 'bot' } })] })
    const basic = Buffer.from(`me:${TEST_PLACEHOLDER}`).toString('base64')
    await ask(get('/', { Authorization: `Basic ${basic}` }))
    const sent = /Basic (\S+)/.exec(arrived.at(-1)?.head ?? '')?.[1] ?? ''
    assert.equal(Buffer.from(sent, 'base64').toString(), `bot:${VALUE}`)
  })

  describe('SE-03: a placeholder elsewhere stops the request', () => {
    const encoded = {
      base64: Buffer.from(`x${TEST_PLACEHOLDER}`).toString('base64'),
      percent: [...TEST_PLACEHOLDER].map((c) => `%${c.charCodeAt(0).toString(16)}`).join(''),
      hex: Buffer.from(TEST_PLACEHOLDER).toString('hex'),
    }
    const chunked = (parts: readonly string[], trailer = ''): string =>
      `POST /echo HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${parts
        .map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
        .join('')}0\r\n${trailer}\r\n`
    const packed = (body: Buffer, coding: string): Buffer => post(body, { 'Content-Encoding': coding })
    const text = JSON.stringify({ key: TEST_PLACEHOLDER })
    const ROWS: readonly (readonly [string, string | Buffer])[] = [
      ['in the path', get(`/v1/${TEST_PLACEHOLDER}`)],
      ['in the query', get(`/v1?key=${TEST_PLACEHOLDER}`)],
      ['in the query, percent-encoded', get(`/v1?k=${encoded.percent}`)],
      ['in the query, base64', get(`/v1?k=${encodeURIComponent(encoded.base64)}`)],
      ['in a cookie', get('/', { Cookie: `session=${TEST_PLACEHOLDER}` })],
      ['in another header', get('/', { 'X-Note': TEST_PLACEHOLDER })],
      ['in the name of a header', get('/', { [`X-${TEST_PLACEHOLDER}`]: '1' })],
      ['in its slot with another scheme', get('/', { Authorization: `Token ${TEST_PLACEHOLDER}` })],
      ['in its slot with something behind it', get('/', { Authorization: `Bearer ${TEST_PLACEHOLDER}x` })],
      ['in its slot as Basic', get('/', { Authorization: `Basic ${encoded.base64}` })],
      ['in the body', post(text)],
      ['in the body, base64', post(encoded.base64)],
      ['in the body, hex', post(encoded.hex)],
      ['in the body, percent-encoded', post(encoded.percent)],
      [
        'in a form',
        post(`--b\r\nContent-Disposition: form-data; name="k"\r\n\r\n${TEST_PLACEHOLDER}\r\n--b--`),
      ],
      ['in a body of one chunk', chunked([text])],
      [
        'across chunks',
        chunked([`{"key":"${TEST_PLACEHOLDER.slice(0, 20)}`, `${TEST_PLACEHOLDER.slice(20)}"}`]),
      ],
      ['byte by byte', chunked([...TEST_PLACEHOLDER])],
      ['in a trailer', chunked(['a'], `X-Note: ${TEST_PLACEHOLDER}\r\n`)],
      ['in a gzip body', packed(gzipSync(text), 'gzip')],
      ['in a deflate body', packed(deflateSync(text), 'deflate')],
      ['in a brotli body', packed(brotliCompressSync(text), 'br')],
      ['in a zstd body', packed(zstdCompressSync(text), 'zstd')],
      ['in a deflate body without the head of zlib', packed(deflateRawSync(text), 'deflate')],
      ['in a gzip body, the coding in other letters', packed(gzipSync(text), 'GZip')],
      ['in the second member of a gzip body', packed(Buffer.concat([gzipSync('a'), gzipSync(text)]), 'gzip')],
      [
        'in a gzip member behind padding',
        packed(Buffer.concat([gzipSync('a'), Buffer.alloc(4), gzipSync(text)]), 'gzip'),
      ],
      [
        'in the second frame of a zstd body',
        packed(Buffer.concat([zstdCompressSync('a'), zstdCompressSync(text)]), 'zstd'),
      ],
      ['in a body that is not what it claims to be packed as', packed(Buffer.from('plain'), 'gzip')],
      ['in a body that is cut off', packed(gzipSync('x'.repeat(1000)).subarray(0, -6), 'gzip')],
      [
        'in a body whose codings stand in two headers',
        post(gzipSync(gzipSync(text)), { 'Content-Encoding': 'gzip', 'content-encoding': 'gzip' }),
      ],
      ['in base64 that is broken into lines', post(encoded.base64.replaceAll(/.{30}/g, '$&\r\n'))],
      ['in a body packed in a way nobody knows', packed(Buffer.from('xx'), 'compress')],
      ['in a body packed twice', packed(gzipSync(gzipSync(text)), 'gzip, gzip')],
    ]
    for (const [where, bytes] of ROWS) {
      test(`NET-13 SE-03: a placeholder ${where} stops the request`, async () => {
        const said = await ask(bytes)
        assert.match(said, /^HTTP\/1\.1 403 .*secret\.(?:misplaced|coding)/s)
        assert.ok(
          arrived.every(({ body }) => !body.includes(TEST_PLACEHOLDER.slice(0, 8))),
          'nothing of it arrives',
        )
        assert.ok(!said.includes(VALUE))
      })
    }

    test('positive control: bodies without a placeholder arrive unchanged, compressed or not', async () => {
      for (const [body, coding] of [
        [Buffer.from('{"a":1}'), 'identity'],
        [gzipSync('{"a":1}'), 'gzip'],
        [gzipSync('{"a":1}'), 'X-GZip'],
        [deflateSync('{"a":1}'), 'deflate'],
        [deflateRawSync('{"a":1}'), 'deflate'],
        [Buffer.concat([gzipSync('one'), gzipSync('two')]), 'gzip'],
        [Buffer.concat([zstdCompressSync('one'), zstdCompressSync('two')]), 'zstd'],
      ] as const) {
        assert.match(await ask(packed(body, coding)), /fine$/)
        assert.equal(arrived.at(-1)?.body, body.toString('latin1'))
        assert.match(arrived.at(-1)?.head ?? '', new RegExp(`Content-Length\n${body.length}`))
      }
      assert.match(await ask(chunked(['hello ', 'world'])), /fine$/)
      assert.equal(arrived.at(-1)?.body, 'hello world')
    })
  })

  describe('SE-02: another host gets neither value nor placeholder', () => {
    test('SE-02: another host gets neither value nor placeholder over plain HTTP', async () => {
      for (const host of ['plain.example.com', HOST]) {
        const socket = await stage.podd.direct({ name: host, port: 80 })
        socket.write(get('/', BEARER, host))
        const said = await new Promise<string>((resolve) => {
          let text = ''
          socket.on('data', (chunk: Buffer) => {
            text += chunk
          })
          socket.on('close', () => resolve(text))
          socket.on('end', () => socket.end())
        })
        assert.match(said, /^HTTP\/1\.1 403 .*secret\.misplaced/s)
      }
      assert.equal(arrived.length, 0)
    })

    test('SE-02: another host gets neither value nor placeholder over decrypted TLS', async () => {
      stage.change({ intercept: 'all' })
      const other = async (bytes: string): Promise<string> =>
        sendRaw(await secureClient(stage, { host: 'other.example.com' }), bytes)
      assert.match(await other(get('/', BEARER, 'other.example.com')), /^HTTP\/1\.1 403 .*secret\.misplaced/s)
      assert.equal(arrived.length, 0)
      assert.match(await other(get('/', {}, 'other.example.com')), /other$/)
      stage.change({ intercept: 'needed' })
    })

    test('SE-02: another port of the host gets neither value nor placeholder', async () => {
      stage.change({ secrets: [testSecret({ port: 8443 })], intercept: 'all' })
      assert.match(await ask(get('/', BEARER)), /secret\.misplaced/)
      assert.equal(arrived.length, 0)
      stage.change({ intercept: 'needed' })
    })
  })

  describe('SE-04: what comes back has no value in it', () => {
    const echo = (
      req: IncomingMessage,
      res: ServerResponse,
      coding: string,
      pack: (text: string) => Buffer,
    ): void => {
      const auth = req.headers.authorization ?? ''
      const value = auth.replace('Bearer ', '')
      const forms = [
        auth,
        encodeURIComponent(value),
        Buffer.from(value).toString('base64'),
        Buffer.from(`a:${value}`).toString('base64'),
        Buffer.from(value).toString('hex'),
        JSON.stringify({ value }),
        JSON.stringify(value).replaceAll('/', '\\/'),
      ]
      res.setHeader('x-echo', auth)
      res.setHeader('content-encoding', coding)
      res.end(pack(forms.join('\n')))
    }
    const CODINGS: readonly (readonly [string, (text: string) => Buffer])[] = [
      ['identity', (text) => Buffer.from(text)],
      ['gzip', (text) => gzipSync(text)],
      ['deflate', (text) => deflateSync(text)],
      ['deflate', (text) => deflateRawSync(text)],
      ['GZIP', (text) => Buffer.concat([gzipSync(text), gzipSync(text)])],
      ['br', (text) => brotliCompressSync(text)],
      ['zstd', (text) => zstdCompressSync(text)],
    ]
    for (const [coding, pack] of CODINGS) {
      test(`SE-04: a value echoed in headers and body is masked, ${coding}`, async () => {
        answer = (req, res) => echo(req, res, coding, pack)
        const said = await ask(get('/', BEARER))
        assert.match(said, /^HTTP\/1\.1 200/)
        assert.match(said, /\*{8}/)
        for (const needle of encodedForms(VALUE))
          assert.ok(!said.includes(needle.toString('latin1')), needle.toString())
      })
    }

    test('SE-04: a value split over chunks is masked', async () => {
      answer = (req, res) => {
        const value = String(req.headers.authorization)
        let at = 0
        const next = (): void => {
          if (at >= value.length) return void res.end('|end')
          res.write(value.slice(at, at + 3))
          at += 3
          setTimeout(next, 2)
        }
        next()
      }
      const said = await ask(get('/', BEARER))
      assert.ok(!said.includes(VALUE) && said.includes('|end'))
      assert.match(unchunked(said), /^Bearer \*+\|end$/)
    })

    test('SE-04: a response with an unknown coding is cut', async () => {
      answer = (req, res) => {
        res.setHeader('content-encoding', 'odd')
        res.end(String(req.headers.authorization))
      }
      assert.ok(!(await ask(get('/', BEARER))).includes(VALUE))
    })

    test('SE-04: ranges are not requested, because a value could be split between two', async () => {
      await ask(get('/', { ...BEARER, Range: 'bytes=0-9', 'If-Range': 'x', 'Accept-Encoding': 'gzip' }))
      assert.doesNotMatch(arrived[0]?.head ?? '', /range/i)
      assert.match(arrived[0]?.head ?? '', /Accept-Encoding\nidentity/)
    })

    test('SE-04: TRACE is refused', async () => {
      assert.match(
        await ask(`TRACE / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`),
        /^HTTP\/1\.1 403/,
      )
      assert.equal(arrived.length, 0)
    })

    test('positive control: other text in a response is unchanged', async () => {
      answer = (_, res) => void res.end(`${'x'.repeat(100_000)}Bearer`)
      assert.match(await ask(get('/', BEARER)), /x{1000}Bearer/)
    })
  })

  test('SE-05: a second Authorization is refused, and a line end in one adds no header', async () => {
    const twice = `GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\nAuthorization: Bearer ${TEST_PLACEHOLDER}\r\nAuthorization: Bearer attacker\r\n\r\n`
    assert.match(await ask(twice), /^HTTP\/1\.1 400/)
    assert.match(
      await ask(get('/', { Authorization: `Bearer ${TEST_PLACEHOLDER}\rX-Evil: 1` })),
      /^HTTP\/1\.1 400/,
    )
    assert.equal(arrived.length, 0)
  })

  describe('SE-06: a foreign credential does not arrive', () => {
    const HEADERS: readonly Readonly<Record<string, string>>[] = [
      { Authorization: 'Bearer sk-attacker' },
      { Authorization: 'Basic YTpi' },
      { 'X-Api-Key': 'attacker' },
      { 'x-goog-api-key': 'attacker' },
      { Cookie: 'session=attacker' },
      { 'Private-Token': 'attacker' },
      { 'X-Vault-Token': 'attacker' },
      { 'X-Shopify-Access-Token': 'attacker' },
      { 'X-Amz-Security-Token': 'attacker' },
      { 'X-Functions-Key': 'attacker' },
      { 'Ocp-Apim-Subscription-Key': 'attacker' },
      { 'DD-API-KEY': 'attacker' },
      { 'X-Auth-Key': 'attacker' },
    ]
    for (const headers of HEADERS) {
      test(`SE-06: the foreign credential ${JSON.stringify(headers)} is removed`, async () => {
        assert.match(await ask(get('/', headers)), /fine$/)
        assert.equal(arrived.length, 1)
        const [name = '', value = ''] = Object.entries(headers)[0] ?? []
        assert.ok(
          !arrived[0]?.head.toLowerCase().includes(name.toLowerCase()) && !arrived[0]?.head.includes(value),
        )
      })
    }

    test('positive control: tokens that do not identify a user arrive', async () => {
      await ask(
        get('/', { 'X-CSRF-Token': 'form', 'X-Ms-Continuation-Token': 'next', 'Idempotency-Key': 'k' }),
      )
      assert.match(
        arrived[0]?.head ?? '',
        /X-CSRF-Token\nform\nX-Ms-Continuation-Token\nnext\nIdempotency-Key\nk/,
      )
    })

    test('SE-06: a foreign credential in the query is refused', async () => {
      assert.match(await ask(get('/v1?api_key=attacker')), /^HTTP\/1\.1 403 .*credential\.foreign/s)
      assert.match(await ask(get('/v1?a=1&key=AIzaSyA-0123456789abcdef')), /credential\.foreign/)
      assert.equal(arrived.length, 0)
      assert.match(await ask(get('/v1?key=short&a=1')), /fine$/)
    })
  })

  test('SE-03: WebSocket extensions, which could compress frames, are never negotiated', async () => {
    stage.change({ intercept: 'all' })
    const tls = await secureClient(stage, { host: 'other.example.com' })
    await sendRaw(
      tls,
      get(
        '/',
        { 'Sec-WebSocket-Extensions': 'permessage-deflate', 'Accept-Encoding': 'gzip' },
        'other.example.com',
      ),
    )
    assert.doesNotMatch(arrived[0]?.head ?? '', /extensions/i)
    assert.match(arrived[0]?.head ?? '', /Accept-Encoding\ngzip/)
    stage.change({ intercept: 'needed' })
  })

  test('NET-13 SE-09: a placeholder of another sandbox, or of a removed secret, is useless', async () => {
    stage.change({
      secrets: [testSecret({}, { placeholder: 'agentpodanother0123456789abcdefghijklmnopqrst' })],
    })
    assert.match(await ask(get('/', BEARER)), /fine$/)
    assert.ok(!arrived[0]?.head.includes(VALUE) && !arrived[0]?.head.includes(TEST_PLACEHOLDER))
    stage.change({ secrets: [], intercept: 'all' })
    arrived.length = 0
    await ask(get('/', BEARER))
    assert.ok(!arrived[0]?.head.includes(VALUE))
    stage.change({ intercept: 'needed' })
  })

  test('a rotated value is used for the next request', async () => {
    const next: BoundSecret = testSecret({}, { value: 'another-value-0123' })
    stage.change({ secrets: [next] })
    await ask(get('/', BEARER))
    assert.match(arrived[0]?.head ?? '', /Bearer another-value-0123/)
  })

  test('a secret for some paths and methods does not work for others', async () => {
    stage.change({ secrets: [testSecret({ methods: ['GET'], paths: ['/v1/**'] })] })
    assert.match(await ask(get('/v1/models', BEARER)), /fine$/)
    assert.match(await ask(get('/admin', BEARER)), /^HTTP\/1\.1 403 .*secret\.scope/s)
    assert.match(await ask(get('/v1/../admin', BEARER)), /secret\.scope/)
    assert.match(await ask(post('x', { ...BEARER })), /secret\.scope/)
    assert.equal(arrived.length, 1)
  })

  describe('a secret with a budget', () => {
    test('the request budget of a secret applies in addition to the rule', async () => {
      stage.change({ secrets: [testSecret({ budget: { requestsPerMinute: 2 } }, { name: 'RATE' })] })
      assert.match(await ask(get('/', BEARER)), /fine$/)
      assert.match(await ask(get('/', BEARER)), /fine$/)
      assert.match(await ask(get('/', BEARER)), /^HTTP\/1\.1 429 .*budget\.rate/s)
      assert.equal(arrived.length, 2)
      assert.match(await ask(get('/public')), /fine$/)
      stage.change({
        secrets: [testSecret({ budget: { requestsPerMinute: 2 } }, { name: 'RATE', value: 'rotated-value' })],
      })
      assert.match(await ask(get('/', BEARER)), /budget\.rate/)
    })

    test('the byte budget of a secret counts both directions', async () => {
      stage.change({ secrets: [testSecret({ budget: { bytes: 1000 } }, { name: 'OUT' })] })
      assert.match(await ask(post('x'.repeat(2000), BEARER)), /^HTTP\/1\.1 429 .*budget\.bytes/s)
      assert.match(await ask(get('/', BEARER)), /^HTTP\/1\.1 429 .*budget\.bytes/s)
      answer = (_, res) => void res.end('y'.repeat(200_000))
      stage.change({ secrets: [testSecret({ budget: { bytes: 1000 } }, { name: 'IN' })] })
      assert.doesNotMatch(await ask(get('/', BEARER)), /y{1001}/)
      assert.match(await ask(get('/', BEARER)), /budget\.bytes/)
    })
  })

  test('HEAD of a compressed resource is answered', async () => {
    answer = (_, res) => {
      res.writeHead(200, { 'content-encoding': 'gzip' })
      res.end()
    }
    const head = get('/', BEARER).replace('GET', 'HEAD')
    assert.match(await ask(head), /^HTTP\/1\.1 200 [\s\S]*\r\n\r\n$/)
  })

  test('a site with a wrong certificate gets nothing', async () => {
    const impostor = await openTlsFixture()
    try {
      await site(impostor, (req, res) => void res.end(req.rawHeaders.join()), { host: 'wrong.example.org' })
      impostor.name(HOST, [ADDRESS])
      const said = await sendRaw(await secureClient(impostor), get('/', BEARER))
      assert.match(said, /^HTTP\/1\.1 502 .*upstream\.tls/s)
    } finally {
      await impostor.close()
    }
  })

  test('NW-17: a request for another host than its connection is refused', async () => {
    assert.match(await ask(get('/', { ...BEARER, Host: 'evil.example.net' })), /^HTTP\/1\.1 (?:421|400)/)
    assert.equal(arrived.length, 0)
  })

  test('NET-12 no record, no error and no log line has a value or a placeholder in it', async () => {
    await ask(get(`/v1/${TEST_PLACEHOLDER}`, BEARER))
    await new Promise((resolve) => setTimeout(resolve, 150))
    const all = JSON.stringify([stage.records, stage.errors])
    assert.ok(stage.records.length > 0)
    assert.ok(!all.includes(VALUE) && !all.includes(TEST_PLACEHOLDER))
  })

  describe('keeps streaming', () => {
    test('NET-11 server-sent events with a secret arrive one by one', async () => {
      let send = (_: string): void => undefined
      answer = (_, res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        res.flushHeaders()
        send = (text) => void res.write(text)
      }
      const tls = await secureClient(stage)
      let text = ''
      const until = (words: string): Promise<void> =>
        new Promise((resolve) => {
          const look = (): void => {
            if (text.includes(words)) resolve()
            else setTimeout(look, 2)
          }
          look()
        })
      tls.on('data', (chunk: Buffer) => {
        text += chunk
      })
      tls.write(get('/events', BEARER))
      await until('text/event-stream')
      for (const n of [1, 2, 3]) {
        send(`data: ${n}\n\n`)
        await until(`data: ${n}`)
      }
      tls.destroy()
    })

    describe('websockets', () => {
      const open = async (onFrame: (payload: string, req: IncomingMessage) => Buffer[]) => {
        const got: string[] = []
        const upgrade = (req: IncomingMessage, socket: Duplex): void => {
          got.push(req.rawHeaders.join('\n'))
          socket.on('error', () => undefined)
          socket.write(
            'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
          )
          let rest = Buffer.alloc(0)
          socket.on('data', (chunk: Buffer) => {
            rest = Buffer.concat([rest, chunk])
            for (
              let head = readFrameHead(rest);
              head && rest.length >= head.size + head.length;
              head = readFrameHead(rest)
            ) {
              const payload = rest.subarray(head.size, head.size + head.length)
              const text = (head.mask ? unmask(payload, head.mask) : payload).toString()
              rest = rest.subarray(head.size + head.length)
              got.push(text)
              for (const frame of onFrame(text, req)) socket.write(frame)
            }
          })
        }
        server.removeAllListeners('upgrade').on('upgrade', upgrade)
        const tls = await secureClient(stage)
        let said = Buffer.alloc(0)
        tls.on('error', () => undefined)
        tls.on('data', (chunk: Buffer) => {
          said = Buffer.concat([said, chunk])
        })
        tls.write(
          get('/socket', {
            ...BEARER,
            Connection: 'Upgrade',
            Upgrade: 'websocket',
            'Sec-WebSocket-Version': '13',
            'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
            'Sec-WebSocket-Extensions': 'permessage-deflate',
          }),
        )
        const until = async (words: string): Promise<void> => {
          for (let n = 0; n < 1000 && !said.includes(words); n++) await new Promise((r) => setTimeout(r, 2))
          assert.ok(said.includes(words), `${words} in ${said}`)
        }
        await until('101')
        return { tls, got, until, said: () => said.toString('latin1') }
      }

      test('NET-11 websockets with a secret carry frames both ways, with the value in the request alone', async () => {
        const { tls, got, until } = await open((text) => [serverFrame(1, true, Buffer.from(`echo ${text}`))])
        tls.write(clientFrame('hello'))
        await until('echo hello')
        const long = 'y'.repeat(200_000)
        tls.write(clientFrame(long))
        await until(`echo ${long}`)
        assert.ok(got[0]?.includes(VALUE) && !/extensions/i.test(got[0] ?? ''))
        tls.destroy()
      })

      test('SE-03: a frame with a placeholder is refused, also in two halves', async () => {
        for (const frames of [
          [clientFrame(`key ${TEST_PLACEHOLDER}`)],
          [
            clientFrame(TEST_PLACEHOLDER.slice(0, 20), { isLast: false }),
            clientFrame(TEST_PLACEHOLDER.slice(20), { opcode: 0 }),
          ],
          [
            clientFrame(TEST_PLACEHOLDER.slice(0, 20), { isLast: false }),
            clientFrame('ping', { opcode: 9 }),
            clientFrame(TEST_PLACEHOLDER.slice(20), { opcode: 0 }),
          ],
        ]) {
          const { tls, got } = await open(() => [])
          const closed = new Promise((resolve) => tls.once('close', resolve).once('end', resolve))
          for (const frame of frames) tls.write(frame)
          await closed
          assert.ok(!got.join('').includes(TEST_PLACEHOLDER))
        }
      })

      test('SE-04: an echoed value is masked, also in fragments and control frames', async () => {
        const { tls, until, said } = await open((_, req) => {
          const value = Buffer.from(String(req.headers.authorization).replace('Bearer ', ''))
          return [
            serverFrame(1, true, value),
            serverFrame(1, false, value.subarray(0, 9)),
            serverFrame(9, true, value),
            serverFrame(0, true, value.subarray(9)),
            serverFrame(1, true, Buffer.from('the end')),
          ]
        })
        tls.write(clientFrame('go'))
        await until('the end')
        assert.ok(!said().includes(VALUE) && !said().includes(VALUE.slice(0, 9)))
        assert.equal(said().match(/\*{24}/g)?.length, 3)
        tls.destroy()
      })
    })

    test('HTTP/2 streams with secrets work in parallel, with trailers and refusals', async () => {
      answer = (req, res) => {
        res.writeHead(200, { trailer: 'x-end', 'x-path': req.url ?? '' })
        req.on('end', () => {
          res.addTrailers({ 'x-end': 'yes' })
          res.end(`auth ${req.headers.authorization ?? 'none'}`)
        })
      }
      const session = await http2Client(stage)
      const call = (headers: Record<string, string>, body?: string) =>
        new Promise<{ status: number; text: string; trailer: unknown }>((resolve, reject) => {
          const stream = session.request({ ':path': '/', ...headers }, { endStream: body === undefined })
          let [text, status, trailer] = ['', 0, undefined as unknown]
          stream.on('response', (head) => {
            status = Number(head[':status'])
          })
          stream.on('trailers', (trailers) => {
            trailer = trailers['x-end']
          })
          stream.on('data', (chunk: Buffer) => {
            text += chunk
          })
          stream.on('end', () => resolve({ status, text, trailer }))
          stream.on('error', reject)
          if (body !== undefined) stream.end(body)
        })
      try {
        const many = await Promise.all(
          Array.from({ length: 20 }, (_, n) =>
            call({ ':path': `/${n}`, authorization: `Bearer ${TEST_PLACEHOLDER}` }),
          ),
        )
        for (const { status, text, trailer } of many) {
          assert.equal(status, 200)
          assert.match(text, /^auth Bearer \*+$/)
          assert.equal(trailer, 'yes')
        }
        assert.equal(arrived.filter(({ head }) => head.includes(VALUE)).length, 20)
        const body = await call({ ':method': 'POST', ':path': '/' }, 'x'.repeat(200_000))
        assert.equal(body.status, 200)
        assert.equal(arrived.at(-1)?.body.length, 200_000)
        const misplaced = await call({ ':method': 'POST', ':path': '/' }, `key=${TEST_PLACEHOLDER}`)
        assert.equal(misplaced.status, 403)
        assert.match(misplaced.text, /secret\.misplaced/)
        const fronted = await call({
          ':authority': 'evil.example.net',
          authorization: `Bearer ${TEST_PLACEHOLDER}`,
        })
        assert.equal(fronted.status, 421)
        const twoHosts = await call({ host: 'evil.example.net' })
        assert.ok([400, 421].includes(twoHosts.status))
      } finally {
        session.destroy()
      }
    })
  })
})
