import assert from 'node:assert/strict'
import { createServer as createTcp, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { connect as connectTls, createServer as createTls } from 'node:tls'
import { systemClock } from '../../util/clock.ts'
import { systemRandom } from '../../util/random.ts'
import { makeCertificate, makeSandboxAuthority } from '../../util/x509/certificate.ts'
import type { Refusal } from '../refusal.ts'
import { EgressFixture, readAll, readUntil, testPolicy } from '../testing/egress-fixture.ts'
import { buildHello } from '../testing/hello.ts'
import type { InterceptedConnection, Interceptor } from './interceptor.ts'

const parts = { now: Date.now(), random: systemRandom }
const authority = makeSandboxAuthority(parts, 'a test')
const { cert, key } = makeCertificate(authority, ['good.example'], parts)
// biome-ignore lint/suspicious/noControlCharactersInRegex: an alert is bytes.
const ALERT = /^\x15\x03\x03\x00\x02\x02(.)$/s

function fastClock() {
  let now = Date.now()
  return { now: () => (now += 1000), after: systemClock.after }
}

const RULES = [
  'good.example',
  '*.wild.example',
  'raw.example:7000',
  { host: 'paths.example', paths: ['/a/**'] },
]

describe('a tunnel', () => {
  let stage: EgressFixture
  let seen = ''
  before(async () => {
    stage = await EgressFixture.open({
      clock: fastClock(),
      policy: testPolicy(RULES, {
        addresses: { allowed: ['192.0.2.0/24'], denied: [] },
        denied: ['evil.example'],
      }),
    })
    for (const host of ['good.example', 'a.wild.example', 'paths.example', 'raw.example'])
      stage.name(host, ['192.0.2.10'])
    await stage.place(
      '192.0.2.10',
      443,
      createTls({ cert, key }, (socket) => {
        socket.on('error', () => undefined)
        socket.end('from the server')
      }),
    )
    const raw = createTcp((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (chunk) => (seen += chunk.toString('latin1')))
      socket.write('banner\n')
      socket.on('end', () => socket.end(`heard ${seen}`))
    })
    await stage.place('192.0.2.10', 7000, raw)
  })
  after(() => stage.close())

  async function tunnel(way: 'connect' | 'direct' | 'socks', host: string, port = 443): Promise<Socket> {
    if (way === 'direct') return stage.podd.direct({ name: host, port })
    const socket = await stage.podd.proxy()
    if (way === 'connect') {
      socket.write(`CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`)
      assert.match(await readUntil(socket, '\r\n\r\n'), /^HTTP\/1\.1 200 Connection Established\r\n\r\n$/)
    } else {
      const name = Buffer.from(host)
      socket.write(
        Buffer.concat([
          Buffer.from([5, 1, 0, 5, 1, 0, 3, name.length]),
          name,
          Buffer.from([port >> 8, port & 255]),
        ]),
      )
      assert.equal((await readUntil(socket, '\x00\x00\x00\x00\x00\x00')).length, 12)
    }
    return socket
  }

  for (const way of ['connect', 'direct', 'socks'] as const)
    test(`TLS passes through unread, end to end, by ${way}`, async () => {
      const socket = await tunnel(way, 'good.example')
      const tls = connectTls({ socket, servername: 'good.example', ca: authority.cert })
      const text = await new Promise<string>((resolve, reject) => {
        let all = ''
        tls
          .on('data', (chunk) => (all += chunk))
          .once('end', () => resolve(all))
          .once('error', reject)
      })
      assert.equal(tls.authorized, true)
      assert.equal(text, 'from the server')
      tls.destroy()
    })

  const refused: Readonly<Record<string, Buffer>> = {
    'another name': buildHello({ names: ['evil.test'] }),
    'a name below': buildHello({ names: ['a.good.example'] }),
    'no name': buildHello(),
    'no extensions': buildHello({ hasNoExtensions: true }),
    'two names': buildHello({ names: ['good.example', 'evil.test'] }),
    'the name twice': buildHello({ names: ['good.example', 'good.example'] }),
    'a NUL in the name': buildHello({ names: ['good.example\0.evil.test'] }),
    'a NUL before the name': buildHello({ names: ['evil.test\0good.example'] }),
    'an address for a name': buildHello({ names: ['192.0.2.10'] }),
    'a name that is no UTF-8': buildHello({ names: [Buffer.from([0xff, 0xfe])] }),
    'a space in the name': buildHello({ names: ['good.example '] }),
    'another name and an encrypted part': buildHello({
      names: ['front.example'],
      extensions: [[0xfe0d, Buffer.alloc(60)]],
    }),
    'a name of another type': buildHello({ names: ['good.example'], nameType: 7 }),
    'another name in small records': buildHello({ names: ['evil.test'], recordBytes: 40 }),
  }
  for (const [name, hello] of Object.entries(refused))
    for (const way of ['connect', 'direct'] as const)
      test(`NET-7 a tunnel ends with an alert and is not dialled when TLS has ${name}, by ${way}`, async () => {
        stage.dialled.length = 0
        const socket = await tunnel(way, 'good.example')
        socket.write(hello)
        assert.match(await readAll(socket), ALERT)
        assert.deepEqual(stage.dialled, [])
      })

  const passed: Readonly<Record<string, Buffer>> = {
    'its name': buildHello({ names: ['good.example'] }),
    'its name in capitals': buildHello({ names: ['GOOD.example'] }),
    'its name and what looks encrypted': buildHello({
      names: ['good.example'],
      extensions: [[0xfe0d, Buffer.alloc(60)]],
    }),
    'its name in small records': buildHello({ names: ['good.example'], recordBytes: 40 }),
  }
  for (const [name, hello] of Object.entries(passed))
    test(`TLS with ${name} is dialed`, async () => {
      stage.dialled.length = 0
      const socket = await tunnel('connect', 'good.example')
      socket.write(hello)
      await readAll(socket)
      assert.deepEqual(stage.dialled, ['192.0.2.10 443'])
    })

  test('a protocol other than HTTP and TLS is refused on ports 80 and 443', async () => {
    stage.dialled.length = 0
    for (const [port, answer] of [
      [443, ALERT],
      [80, /^HTTP\/1\.1 400 /],
    ] as const) {
      const socket = await tunnel('direct', 'good.example', port)
      socket.write('SSH-2.0-client\r\n')
      assert.match(await readAll(socket), answer)
    }
    assert.deepEqual(stage.dialled, [])
  })

  test('a port that a rule names carries any protocol, whichever side speaks first', async () => {
    seen = ''
    const first = await tunnel('connect', 'raw.example', 7000)
    assert.match(await readUntil(first, 'banner'), /banner/)
    first.end('SSH-2.0-x')
    assert.match(await readAll(first), /heard SSH-2\.0-x$/)
    seen = ''
    const brief = await tunnel('direct', 'raw.example', 7000)
    brief.end('abc')
    assert.match(await readAll(brief), /banner\nheard abc$/)
  })

  test('a connection that must be inspected is not passed through', async () => {
    stage.dialled.length = 0
    const tls = await tunnel('connect', 'paths.example')
    tls.write(buildHello({ names: ['paths.example'] }))
    assert.match(await readAll(tls), ALERT)
    assert.deepEqual(stage.dialled, [])
    assert.deepEqual(stage.asked.includes('paths.example'), false)
  })

  test('a connection to a bare address follows the lists, and a denied SNI is refused', async () => {
    stage.dialled.length = 0
    const allowed = await stage.podd.direct({ address: '192.0.2.10', port: 443 })
    allowed.write(buildHello({ names: ['whatever.example'] }))
    await readAll(allowed)
    assert.deepEqual(stage.dialled, ['192.0.2.10 443'])
    for (const [address, name] of [
      ['203.0.113.9', 'x.example'],
      ['192.0.2.10', 'evil.example'],
      ['169.254.169.254', 'x.example'],
    ] as const) {
      const socket = await stage.podd.direct({ address, port: 443 })
      socket.write(buildHello({ names: [name] }))
      assert.match(await readAll(socket), ALERT, address)
    }
    assert.equal(stage.dialled.length, 1)
  })

  test('CONNECT inside a tunnel is refused', async () => {
    const socket = await tunnel('connect', 'good.example', 80)
    socket.write('CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n')
    assert.match(await readAll(socket), /^HTTP\/1\.1 403 [\s\S]*request\.method/)
    assert.equal(stage.asked.includes('evil.test'), false)
  })

  test('NET-7 a refused tunnel answers plain HTTP with plain HTTP', async () => {
    const socket = await stage.podd.direct({ name: 'evil.test', port: 80 })
    socket.write('GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n')
    assert.match(await readAll(socket), /^HTTP\/1\.1 403 [\s\S]*agentpod allow/)
    const tls = await stage.podd.direct({ name: 'evil.test', port: 443 })
    tls.write(buildHello({ names: ['evil.test'] }))
    assert.equal(ALERT.exec(await readAll(tls))?.[1]?.charCodeAt(0), 49)
  })
})

describe('an interceptor', () => {
  test('the interceptor gets connections to inspect and to refuse, and no others', async () => {
    const [opened, refusals]: [InterceptedConnection[], Refusal[]] = [[], []]
    const end = (stream: Duplex): void => void stream.end('seen')
    const interceptor: Interceptor = {
      intercept: (passage) => {
        opened.push(passage)
        end(passage.stream)
      },
      refuseInside: ({ stream }, refusal) => {
        refusals.push(refusal)
        end(stream)
      },
    }
    const stage = await EgressFixture.open({ interceptor, policy: testPolicy(RULES), spec: { authority } })
    stage.name('good.example', ['192.0.2.10'])
    const say = async (host: string, sni = host): Promise<string> => {
      const socket = await stage.podd.direct({ name: host, port: 443 })
      socket.write(buildHello({ names: [sni] }))
      return readAll(socket)
    }
    assert.equal(await say('paths.example'), 'seen')
    assert.equal(opened[0]?.destination.kind === 'name' && opened[0].destination.host, 'paths.example')
    assert.equal(await say('evil.test'), 'seen')
    assert.equal(refusals[0]?.reason, 'rule.none')
    assert.match(await say('paths.example', 'evil.test'), ALERT)
    assert.match(await say('evil.test', 'other.test'), ALERT)
    assert.equal(await say('good.example'), 'seen', 'nobody listens there, which is said inside')
    assert.equal(refusals[1]?.status, 502)
    stage.change({ intercept: 'all' })
    assert.equal(await say('good.example'), 'seen')
    assert.equal(opened.length, 2)
    const slot = {
      hosts: ['good.example'],
      port: 443,
      header: 'authorization',
      scheme: { kind: 'bare' },
    } as const
    stage.change({ intercept: 'needed', secrets: [{ name: 'k', placeholder: 'p', value: 'v', slot }] })
    assert.equal(await say('good.example'), 'seen')
    stage.change({ secrets: [], headers: [{ host: 'good.example', headers: { 'X-A': 'b' } }] })
    assert.equal(await say('good.example'), 'seen')
    assert.equal(opened.length, 4)
    await stage.close()
  })
})
