import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { connect, createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { makeCertificate } from '../util/certificate.ts'
import { systemClock } from '../util/clock.ts'
import { systemRandom } from '../util/random.ts'
import {
  ADDRESS,
  exchange,
  get,
  HOST,
  http2Client,
  PLACEHOLDER,
  SANDBOX_AUTHORITY,
  SITE_AUTHORITY,
  secret,
  secureClient,
  secureStage,
  VALUE,
} from './testing/secure-stage.ts'
import { policyOf, type Stage } from './testing/stage.ts'

const BEARER = { Authorization: `Bearer ${PLACEHOLDER}` }
const UPGRADE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
}

/** Servers that a sandbox may reach are not for that reason its friends, or ours. */
describe('a server that says what no server should', () => {
  let stage: Stage
  /** What is written back for a request, byte for byte. */
  let answer: (socket: Socket, asked: string) => void = (socket) => socket.end()
  const crashes: unknown[] = []
  const onCrash = (error: unknown): number => crashes.push(error)

  before(async () => {
    process.on('uncaughtException', onCrash)
    stage = await secureStage()
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
    stage.change({ policy: policyOf([HOST, 'plain.example.com']), secrets: [secret()] })
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
    test(`with ${what} harms nobody, over HTTP/1, HTTP/2 and in place of a websocket`, async () => {
      answer = (socket) => void socket.end(bytes)
      await within('HTTP/1', 3000, exchange(await secureClient(stage), get('/', BEARER)))
      await within(
        'a websocket',
        3000,
        exchange(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE })),
      )
      const session = await http2Client(stage)
      session.on('error', () => undefined)
      const stream = session.request({ ':path': '/', authorization: `Bearer ${PLACEHOLDER}` })
      stream.on('error', () => undefined)
      stream.resume()
      await within('HTTP/2', 3000, new Promise((resolve) => stream.once('close', resolve)))
      session.destroy()
      assert.deepEqual(crashes, [])
      answer = (socket) => void socket.end(ok)
      assert.match(await exchange(await secureClient(stage), get('/')), /ok$/)
    })
  }

  test('SE-04: an echo in trailers, in hints or packed for the way does not bring the value back', async () => {
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
      const said = await exchange(await secureClient(stage), get('/', { ...BEARER, TE: 'trailers' }))
      assert.ok(!said.includes(VALUE))
      const packed = Buffer.from(said, 'latin1')
      assert.ok(!packed.includes(gzipSync(VALUE).subarray(10, 30)))
    }
  })

  test('a websocket that is refused has its whole answer passed on, and none of it once the rules change', async () => {
    answer = (socket) =>
      void socket.end(`HTTP/1.1 400 No\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(3_000_000)}`)
    const whole = await exchange(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE }))
    assert.ok(whole.length > 3_000_000)
    answer = (socket) => {
      socket.write('HTTP/1.1 400 No\r\n\r\n')
      const timer = setInterval(() => socket.write('drip'), 5)
      socket.once('close', () => clearInterval(timer))
    }
    const dripping = exchange(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE }))
    await new Promise((resolve) => setTimeout(resolve, 100))
    stage.change({ policy: policyOf([]), secrets: [] })
    await within('the cut', 1000, dripping)
  })

  test('a websocket that is agreed to after the rules have changed is none', async () => {
    let agree = (): void => undefined
    answer = (socket) => {
      agree = () =>
        void socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nleak',
        )
    }
    const asked = exchange(await secureClient(stage), get('/', { ...BEARER, ...UPGRADE }))
    await new Promise((resolve) => setTimeout(resolve, 100))
    stage.change({ policy: policyOf([]), secrets: [] })
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

  test('a name that leads to a private address is cut when the rule that let it is taken back', async () => {
    const other = await secureStage({ rules: [{ host: 'mirror.example.com', private: true }] })
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
      other.change({ policy: policyOf(['mirror.example.com']) })
      await within(
        'the cut',
        1000,
        new Promise((resolve) => client.once('end', resolve).once('close', resolve)),
      )
    } finally {
      await other.close()
    }
  })

  test('a POST without a body is sent once, whatever becomes of the connection', async () => {
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

  test('a certificate is checked whatever the environment says', async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    const impostor = await secureStage()
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
      const said = await exchange(await secureClient(impostor), get('/', BEARER))
      assert.match(said, /^HTTP\/1\.1 502 .*upstream\.tls/s)
      assert.equal(got, '')
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
      await impostor.close()
    }
  })

  test('TLS that is opened through the proxy is so whenever its first bytes come', async () => {
    answer = (socket) => void socket.end(ok)
    for (let n = 0; n < 20; n++) {
      const line = '{"v":1,"kind":"proxy"}\n'
      const connectLine = `CONNECT ${HOST}:443 HTTP/1.1\r\nHost: ${HOST}:443\r\n\r\n`
      // The line and the request in one piece, as podd and a fast client give them.
      const socket = await stage.podd.take(`${line}${connectLine}`)
      await new Promise((resolve) => socket.once('data', resolve))
      const tls = connect({ socket, servername: HOST, ca: SANDBOX_AUTHORITY.cert })
      await within(
        'the handshake',
        2000,
        new Promise((resolve, reject) => tls.once('secureConnect', resolve).once('error', reject)),
      )
      assert.match(await exchange(tls, get('/')), /ok$/)
    }
  })
})
