import assert from 'node:assert/strict'
import { createServer as createHttp } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { parseAddress } from '../../policy/address.ts'
import type { HostName } from '../../policy/host-name.ts'
import { EgressFixture, type FixtureOptions, readAll, testPolicy } from '../testing/egress-fixture.ts'
import { parseHosts } from './hosts-file.ts'
import { Lookups } from './resolve.ts'
import { parseUpstreamProxy } from './upstream-proxy.ts'

async function staged(options: FixtureOptions, work: (stage: EgressFixture) => Promise<void>): Promise<void> {
  const stage = await EgressFixture.open(options)
  try {
    await stage.place(
      '192.0.2.10',
      80,
      createHttp((_, res) => res.end('there')),
    )
    await stage.place(
      '10.1.2.3',
      80,
      createHttp((_, res) => res.end('private')),
    )
    await work(stage)
    assert.deepEqual(stage.errors, [])
  } finally {
    await stage.close()
  }
}

async function get(stage: EgressFixture, host: string): Promise<string> {
  const socket = await stage.podd.direct({ name: host, port: 80 })
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  return readAll(socket)
}

async function connectTo(stage: EgressFixture, host: string): Promise<string> {
  const socket = await stage.podd.proxy()
  socket.write(`CONNECT ${host}:443 HTTP/1.1\r\n\r\n`)
  const answer = await new Promise<string>((resolve) =>
    socket.once('data', (chunk) => resolve(String(chunk))),
  )
  socket.destroy()
  return answer
}

const NEVER = [
  ...[
    '127.0.0.1',
    '127.8.8.8',
    '0.0.0.0',
    '169.254.169.254',
    '100.100.100.200',
    '168.63.129.16',
    '224.0.0.1',
  ],
  ...[
    '::1',
    '::',
    '::ffff:127.0.0.1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '::7f00:1',
    'fd00:ec2::254',
    'fe80::1',
    'ff02::1',
  ],
  ...['198.18.0.7', '255.255.255.255', '64:ff9b::a9fe:a9fe', '64:ff9b::10.1.2.3', 'not an address'],
]

describe('a name', () => {
  test('NET-4 an allowed name that leads to a forbidden address is refused and not dialled, whatever the rule', () =>
    staged({ policy: testPolicy(['a.example', { host: 'b.example', private: true }]) }, async (stage) => {
      for (const address of NEVER)
        for (const host of ['a.example', 'b.example']) {
          stage.name(host, [address])
          assert.match(
            await get(stage, host),
            /^HTTP\/1\.1 403 [\s\S]*address\.private/,
            `${host} ${address}`,
          )
          assert.match(
            await connectTo(stage, host),
            /^HTTP\/1\.1 403 [\s\S]*address\.private/,
            `${host} ${address}`,
          )
        }
      assert.deepEqual(stage.dialled, [])
    }))

  test('a private rule allows private addresses, but none of this machine', () =>
    staged(
      {
        policy: testPolicy(['a.example', { host: 'b.example', private: true }]),
        ownAddresses: () => ['192.168.7.7', '203.0.113.5', '2001:db8::5'].map(parseAddress),
      },
      async (stage) => {
        stage.name('a.example', ['10.1.2.3'])
        stage.name('b.example', ['10.1.2.3'])
        assert.match(await get(stage, 'a.example'), /^HTTP\/1\.1 403 [\s\S]*private = true/)
        assert.match(await get(stage, 'b.example'), /private$/)
        for (const own of [
          '192.168.7.7',
          '203.0.113.5',
          '::ffff:192.168.7.7',
          '2001:db8::5',
          '64:ff9b::203.0.113.5',
        ]) {
          stage.name('b.example', [own])
          assert.match(await connectTo(stage, 'b.example'), /^HTTP\/1\.1 403 /, own)
        }
        assert.deepEqual(stage.dialled, ['10.1.2.3 80'])
      },
    ))

  test('NET-4 a name whose answer changes is checked again for each connection, and the checked address is dialled', () =>
    staged({ policy: testPolicy(['flip.example']) }, async (stage) => {
      let turn = 0
      const answers = [['192.0.2.10'], ['127.0.0.1'], ['169.254.169.254'], ['10.1.2.3']]
      stage.name('flip.example', () => answers[turn++ % answers.length] ?? [])
      const first = await connectTo(stage, 'flip.example')
      assert.match(first, /^HTTP\/1\.1 200 /)
      for (let at = 1; at < 4; at++) assert.match(await connectTo(stage, 'flip.example'), /^HTTP\/1\.1 403 /)
      assert.deepEqual(stage.dialled, [])
      turn = 0
      assert.match(await get(stage, 'flip.example'), /there$/)
      assert.equal(turn, 1, 'it was resolved once for one connection')
      assert.deepEqual(stage.dialled, ['192.0.2.10 80'])
    }))

  test('NET-4 a name with several answers is tried at those that may be dialled, in turn', () =>
    staged(
      { policy: testPolicy(['a.example'], { addresses: { allowed: [], denied: ['198.51.100.0/24'] } }) },
      async (stage) => {
        stage.name('a.example', [
          '127.0.0.1',
          '10.1.2.3',
          '203.0.113.1',
          '198.51.100.9',
          '169.254.169.254',
          '192.0.2.10',
        ])
        assert.match(await get(stage, 'a.example'), /there$/)
        assert.deepEqual(stage.dialled, ['203.0.113.1 80', '192.0.2.10 80'])
        stage.dialled.length = 0
        stage.name('a.example', ['198.51.100.9'])
        assert.match(await get(stage, 'a.example'), /^HTTP\/1\.1 (?:200|403)/)
        assert.equal(stage.dialled.includes('198.51.100.9 80'), false)
      },
    ))

  test('a failed connection is reported with its reason', () =>
    staged({ policy: testPolicy(['a.example', 'b.example']) }, async (stage) => {
      assert.match(
        await get(stage, 'a.example'),
        /^HTTP\/1\.1 502 [\s\S]*dns\.unknown[\s\S]*a\.example has no address/,
      )
      stage.name('b.example', ['203.0.113.1'])
      assert.match(
        await get(stage, 'b.example'),
        /^HTTP\/1\.1 502 [\s\S]*upstream\.refused[\s\S]*refused the connection/,
      )
    }))

  test('NET-4 a denied name is never looked up', () =>
    staged(
      { policy: testPolicy(['a.example'], { mode: 'open', denied: ['evil.example'] }) },
      async (stage) => {
        for (const host of [
          'evil.example',
          'metadata.google.internal',
          'localhost',
          'printer.local',
          'single',
        ])
          assert.match(await get(stage, host), /^HTTP\/1\.1 403 /, host)
        assert.deepEqual(stage.asked, [])
        stage.name('any.example', ['192.0.2.10'])
        assert.match(await get(stage, 'any.example'), /there$/)
      },
    ))
})

describe('lookups', () => {
  test('lookups are limited in number and time', async () => {
    let [now, most] = [0, 0]
    const waiting: (() => void)[] = []
    const lookups = new Lookups(async () => {
      most = Math.max(most, ++now)
      await new Promise<void>((resolve) => waiting.push(resolve))
      now--
      return ['192.0.2.1']
    })
    const { signal } = new AbortController()
    const all = Array.from({ length: 100 }, (_, at) =>
      lookups.addresses(`n${at}.example` as HostName, signal),
    )
    for (let done = 0; done < 100; done++) {
      await new Promise((resolve) => setImmediate(resolve))
      waiting.shift()?.()
    }
    await Promise.all(all)
    assert.equal(most, 4)
  })

  test('the hosts file is parsed without its comments', () => {
    const hosts = parseHosts(
      '127.0.0.1 localhost\n# 1.1.1.1 no\n192.0.2.1\tA.example b.example # c.example\n192.0.2.2 a.example\n',
    )
    assert.deepEqual(hosts.get('a.example'), ['192.0.2.1', '192.0.2.2'])
    assert.equal(hosts.has('c.example'), false)
  })
})

describe('the upstream proxy', () => {
  test('the upstream proxy is asked by name for allowed hosts', async () => {
    const asked: string[] = []
    const destination = createHttp((_, res) => res.end('there'))
    await new Promise<void>((resolve) => destination.listen(0, '127.0.0.1', resolve))
    const port = (destination.address() as { port: number }).port
    const sockets = new Set<Socket>()
    const proxy = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.once('data', (chunk) => {
        asked.push(String(chunk).split('\r\n')[0] ?? '')
        if (String(chunk).includes('no.example'))
          return socket.end('HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n')
        const out = connect(port, '127.0.0.1')
        sockets.add(out)
        socket.write('HTTP/1.1 200 OK\r\nVia: x\r\n\r\n')
        socket.pipe(out).pipe(socket)
      })
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const upstreamProxy = `http://127.0.0.1:${(proxy.address() as { port: number }).port}`
    await staged({ upstreamProxy, policy: testPolicy(['a.example', 'no.example']) }, async (stage) => {
      assert.match(await get(stage, 'a.example'), /there$/)
      assert.match(await get(stage, 'evil.test'), /^HTTP\/1\.1 403 /)
      assert.match(await get(stage, 'no.example'), /^HTTP\/1\.1 502 [\s\S]*status 407\)/)
      assert.deepEqual(stage.asked, [])
      await new Promise((resolve) => setTimeout(resolve, 150))
      assert.match(stage.records.find(({ verdict }) => verdict === 'allowed')?.message ?? '', /via upstream/)
    })
    assert.deepEqual(asked, ['CONNECT a.example:80 HTTP/1.1', 'CONNECT no.example:80 HTTP/1.1'])
    for (const socket of sockets) socket.destroy()
    proxy.close()
    destination.close()
  })

  test('the upstream proxy is written http://host:port', () => {
    assert.deepEqual(parseUpstreamProxy('http://proxy.corp.example:3128'), {
      host: 'proxy.corp.example',
      port: 3128,
    })
    assert.deepEqual(parseUpstreamProxy('http://[::1]:80/'), { host: '::1', port: 80 })
    for (const url of [
      '',
      'proxy:3128',
      'https://proxy:3128',
      'http://proxy',
      'http://u:p@proxy:1',
      'http://proxy:0',
      'http://proxy:1/x',
    ])
      assert.throws(() => parseUpstreamProxy(url))
  })
})
