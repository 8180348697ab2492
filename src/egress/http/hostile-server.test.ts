import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { connect, createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { systemClock } from '../../util/clock.ts'
import { systemRandom } from '../../util/random.ts'
import { makeCertificate } from '../../util/x509/certificate.ts'
import { type EgressFixture, testPolicy } from '../testing/egress-fixture.ts'
import {
  ADDRESS,
  get,
  HOST,
  http2Client,
  openTlsFixture,
  SANDBOX_AUTHORITY,
  SITE_AUTHORITY,
  secureClient,
  sendRaw,
  TEST_PLACEHOLDER,
  testSecret,
  VALUE,
} from '../testing/tls-fixture.ts'

const BEARER = { Authorization: `Bearer ${TEST_PLACEHOLDER}` }
const UPGRADE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
}

/** Servers that a sandbox may reach are not for that reason its friends, or ours. */
describe('a server that says what no server should', () => {
  let stage: EgressFixture
  /** What is written back for a request, byte for byte. */
  let answer: (socket: Socket, asked: string) => void = (socket) => socket.end()
  const crashes: unknown[] = []
  const onCrash = (error: unknown): number => crashes.push(error)

  before(async () => {
    process.on('uncaughtException', onCrash)
    stage = await openTlsFixture()
    const parts = { now: systemClock.now(), random: systemRandom }
    const server = createTlsServer(makeCertificate(SITE_AUTHORITY, [HOST], parts), (socket) => {
      socket.on('error', () => socket.destroy())
      let asked = ''
      socket.on('data', (chunk: Buffer) => {
        asked += chunk.toString('latin1')
        if (!asked.includes('\r\n\r\n')) return
        const whole = asked
        asked = ''
        answer(socket, whole)
      })
    })
    stage.name(HOST, [ADDRESS])
    await stage.place(ADDRESS, 443, server as Server)
    const plain = createServer((socket) => {
      socket.on('error', () => socket.destroy())
      socket.once('data', (chunk: Buffer) => answer(socket, chunk.toString('latin1')))
    })
    stage.name('plain.example.com', ['192.0.2.12'])
    await stage.place('192.0.2.12', 80, plain)
  })
  after(async () => {
    await stage.close()
    process.off('uncaughtException', onCrash)
  })
  beforeEach(() => {
    stage.change({ policy: testPolicy([HOST, 'plain.example.com']), secrets: [testSecret()] })
  })

  const within = async (what: string, ms: number, work: Promise<unknown>): Promise<void> => {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${what} took more than ${ms} ms`)), ms)
    })
    await Promise.race([work, late]).finally(() => clearTimeout(timer))
  }
  const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
  const BAD: readonly (readonly [string, string | Buffer])[] = [
    ['early hints that are no hints', `HTTP/1.1 103 Early Hints\r\nLink: garbage\r\n\r\n${ok}`],
    [
      'early hints that take for ever to read',
      `HTTP/1.1 103 Early Hints\r\nLink: <x>${';a=a'.repeat(40)};"\r\n\r\n${ok}`,
    ],
    ['a hundred answers before the answer', `${'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)}${ok}`],
    [
      'a trailer that HTTP/2 forbids',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nHTTP2-Settings: x\r\nTE: y\r\n\r\n',
    ],
    ['control characters in its words', `HTTP/1.1 400 B\x01ad\r\nContent-Length: 0\r\n\r\n`],
    ['a status that is none', 'HTTP/1.1 001 Odd\r\nContent-Length: 0\r\n\r\n'],
    ['a status beyond all', 'HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n'],
    [
      'a packed body that is damaged',
      Buffer.concat([
        Buffer.from('HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n'),
        Buffer.alloc(10, 7),
      ]),
    ],
    [
      'a packing that nobody knows',
      'HTTP/1.1 200 OK\r\nContent-Encoding: odd\r\nContent-Length: 2\r\n\r\nok',
    ],
    [
      'another protocol, unasked',
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n',
    ],
    [
      'headers named like parts of an object',
      'HTTP/1.1 200 OK\r\nconstructor: a\r\n__proto__: b\r\ntoString: c\r\nContent-Length: 2\r\n\r\nok',
    ],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok'],
    ['no HTTP', 'SSH-2.0-x\r\n'],
    ['nothing', ''],
  ]
  for (const [what, bytes] of BAD) {
    test(`NET-8 a server with ${what} harms nobody, over HTTP/1, HTTP/2 and in place of a websocket`, async () => {
      answer = (socket) => void socket.end(bytes)
      await within('HTTP/1', 3000, sendRaw(await secureClient(stage), get('/', BEARER)))
      await within(
        'a websocket',
        3000,
        sendRaw(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE })),
      )
      const session = await http2Client(stage)
      session.on('error', () => undefined)
      const stream = session.request({ ':path': '/', authorization: `Bearer ${TEST_PLACEHOLDER}` })
      stream.on('error', () => undefined)
      stream.resume()
      await within('HTTP/2', 3000, new Promise((resolve) => stream.once('close', resolve)))
      session.destroy()
      assert.deepEqual(crashes, [])
      answer = (socket) => void socket.end(ok)
      assert.match(await sendRaw(await secureClient(stage), get('/')), /ok$/)
    })
  }

  test('SE-04: an echo in trailers, hints or a Transfer-Encoding does not return the value', async () => {
    const echoes: readonly ((value: string) => string | Buffer)[] = [
      (value) =>
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Echo: ${value}\r\n\r\n`,
      (value) => `HTTP/1.1 103 Early Hints\r\nLink: <https://x/${value}>; rel=preload\r\n\r\n${ok}`,
      (value) => {
        const body = gzipSync(value)
        const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n'
        return Buffer.concat([
          Buffer.from(`${head}${body.length.toString(16)}\r\n`),
          body,
          Buffer.from('\r\n0\r\n\r\n'),
        ])
      },
    ]
    for (const echo of echoes) {
      answer = (socket, asked) => void socket.end(echo(/Bearer (\S+)/.exec(asked)?.[1] ?? ''))
      const said = await sendRaw(await secureClient(stage), get('/', { ...BEARER, TE: 'trailers' }))
      assert.ok(!said.includes(VALUE))
      const packed = Buffer.from(said, 'latin1')
      assert.ok(!packed.includes(gzipSync(VALUE).subarray(10, 30)))
    }
  })

  test('the response to a refused WebSocket is forwarded, unless the rules change', async () => {
    answer = (socket) =>
      void socket.end(`HTTP/1.1 400 No\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(3_000_000)}`)
    const whole = await sendRaw(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE }))
    assert.ok(whole.length > 3_000_000)
    answer = (socket) => {
      socket.write('HTTP/1.1 400 No\r\n\r\n')
      const timer = setInterval(() => socket.write('drip'), 5)
      socket.once('close', () => clearInterval(timer))
    }
    const dripping = sendRaw(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE }))
    await new Promise((resolve) => setTimeout(resolve, 100))
    stage.change({ policy: testPolicy([]), secrets: [] })
    await within('the cut', 1000, dripping)
  })

  test('a WebSocket that is accepted after a rule change is refused', async () => {
    let agree = (): void => undefined
    answer = (socket) => {
      agree = () =>
        void socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nleak',
        )
    }
    const asked = sendRaw(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE }))
    await new Promise((resolve) => setTimeout(resolve, 100))
    stage.change({ policy: testPolicy([]), secrets: [] })
    agree()
    let said = ''
    await within(
      'the cut',
      1000,
      asked.then((text) => {
        said = text
      }),
    )
    assert.ok(!said.includes('101') && !said.includes('leak'))
  })

  test('a connection to a private address is cut when its rule is removed', async () => {
    const other = await openTlsFixture({ rules: [{ host: 'mirror.example.com', private: true }] })
    try {
      const drip = createServer((socket) => {
        socket.on('error', () => socket.destroy())
        socket.once('data', () => {
          socket.write('HTTP/1.1 200 OK\r\n\r\n')
          const timer = setInterval(() => socket.write('drip'), 5)
          socket.once('close', () => clearInterval(timer))
        })
      })
      other.name('mirror.example.com', ['10.9.9.9'])
      await other.place('10.9.9.9', 80, drip)
      const client = await other.podd.direct({ name: 'mirror.example.com', port: 80 })
      client.write(get('/', {}, 'mirror.example.com'))
      await new Promise((resolve) => client.once('data', resolve))
      other.change({ policy: testPolicy(['mirror.example.com']) })
      await within(
        'the cut',
        1000,
        new Promise((resolve) => client.once('end', resolve).once('close', resolve)),
      )
    } finally {
      await other.close()
    }
  })

  test('a POST without a body is sent once, even if the connection fails', async () => {
    const asked: string[] = []
    answer = (socket, text) => {
      asked.push(text)
      if (asked.length === 1) socket.write(ok)
      else socket.destroy()
    }
    const client = await stage.podd.direct({ name: 'plain.example.com', port: 80 })
    client.on('error', () => undefined)
    const request = (method: string): string =>
      `${method} / HTTP/1.1\r\nHost: plain.example.com\r\nContent-Length: 0\r\n\r\n`
    client.write(request('POST'))
    await new Promise((resolve) => client.once('data', resolve))
    client.write(request('POST'))
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.ok(asked.length <= 2)
    client.destroy()
  })

  test('a certificate is verified whatever the environment says', async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    const impostor = await openTlsFixture()
    try {
      const parts = { now: systemClock.now(), random: systemRandom }
      let got = ''
      const server = createTlsServer(
        makeCertificate(SITE_AUTHORITY, ['wrong.example.org'], parts),
        (socket) => {
          socket.on('error', () => socket.destroy())
          socket.on('data', (chunk: Buffer) => {
            got += chunk
          })
        },
      )
      impostor.name(HOST, [ADDRESS])
      await impostor.place(ADDRESS, 443, server as Server)
      const said = await sendRaw(await secureClient(impostor), get('/', BEARER))
      assert.match(said, /^HTTP\/1\.1 502 .*upstream\.tls/s)
      assert.equal(got, '')
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
      await impostor.close()
    }
  })

  test('TLS through the proxy is decrypted whenever its first bytes arrive', async () => {
    answer = (socket) => void socket.end(ok)
    for (let n = 0; n < 20; n++) {
      const line = '{"v":1,"kind":"proxy"}\n'
      const connectLine = `CONNECT ${HOST}:443 HTTP/1.1\r\nHost: ${HOST}:443\r\n\r\n`
      // The line and the request in one piece, as podd and a fast client give them.
      const socket = await stage.podd.handOver(`${line}${connectLine}`)
      await new Promise((resolve) => socket.once('data', resolve))
      const tls = connect({ socket, servername: HOST, ca: SANDBOX_AUTHORITY.cert })
      await within(
        'the handshake',
        2000,
        new Promise((resolve, reject) => tls.once('secureConnect', resolve).once('error', reject)),
      )
      assert.match(await sendRaw(tls, get('/')), /ok$/)
    }
  })
})
