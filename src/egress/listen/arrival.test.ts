// What a sandbox may ask for, in every way that it can ask. INVARIANT of all of these: what is refused was
// neither resolved nor dialled.

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '../../util/clock.ts'
import { EgressFixture, readAll, readUntil, testPolicy } from '../testing/egress-fixture.ts'

/** Time runs fast, so that no test waits for its share of connections. */
function fastClock() {
  let now = Date.now()
  return { now: () => (now += 1000), after: systemClock.after }
}

const SIGNS = [
  ...Array.from({ length: 32 }, (_, code) => String.fromCharCode(code)),
  ...'\x7f!"#$%&\'()*+,/;<=>?@[\\]^_`{|}~',
  ...[
    '\u00a0',
    '\u00ad',
    '\u200b',
    '\u202e',
    '\ufeff',
    '／',
    '＠',
    '。',
    '．',
    '｡',
    '\u2024',
    '%00',
    '%0d%0a',
    '%2e',
    '%20',
  ],
]
const HOSTS = [
  ...SIGNS.flatMap((sign) => [`evil.test${sign}.example.com`, `example.com${sign}`, `${sign}example.com`]),
  ...[
    '.example.com',
    'example..com',
    'example.com..',
    '-a.example.com',
    'a-.example.com',
    'a.-b.example.com',
  ],
  ...['user@example.com', 'user:pass@example.com', 'evil.test:80@example.com', 'evil.test#@example.com'],
  ...[
    `${'a'.repeat(64)}.example.com`,
    `${'a.'.repeat(125)}example.com`,
    'xn--.example.com',
    'xn--a.example.com',
  ],
  ...[
    'ｅxample.com',
    'exam\u00adple.com',
    'bücher。example.com',
    'EXAMPLE.com\0',
    '\0',
    ' ',
    '*',
    '*.example.com',
  ],
]
const ADDRESSES = [
  ...[
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '127.0.1',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '0x7f.1',
    '0x7f000001',
    '2130706433',
  ],
  ...[
    '017700000001',
    '0',
    '0.0.0.0',
    '127.000.000.001',
    '①②⑦.⓪.⓪.①',
    '127。0。0。1',
    '[::1]',
    '[::]',
    '[0:0:0:0:0:0:0:1]',
  ],
  ...[
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[2002:7f00:1::]',
    '[::1%25lo]',
    '[::1%lo]',
  ],
  ...[
    '[2001:0:7f00:1::]',
    '[2001:0:4136:e378:8000:63bf:80ff:fffe]',
    '[::ffff:0:127.0.0.1]',
    '[64:ff9b:1::7f00:1]',
  ],
  ...[
    '169.254.169.254',
    '0xa9fea9fe',
    '2852039166',
    '0251.0376.0251.0376',
    '169.254.43518',
    '[::ffff:169.254.169.254]',
  ],
  ...[
    '[64:ff9b::a9fe:a9fe]',
    '[2002:a9fe:a9fe::]',
    '[::a9fe:a9fe]',
    '[fd00:ec2::254]',
    '100.100.100.200',
    '168.63.129.16',
  ],
  ...[
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '240.0.0.1',
    '198.18.0.1',
  ],
  ...['[fe80::1]', '[fc00::1]', '[ff02::1]', '192.0.2.10', '[2001:db8::1]', '127.0.0.1%00.example.com'],
]

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex')

const WAYS: Readonly<Record<string, (host: string) => Buffer>> = {
  connect: (host) => Buffer.from(`CONNECT ${host}:443 HTTP/1.1\r\nHost: ${host}:443\r\n\r\n`),
  absolute: (host) =>
    Buffer.from(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`),
  socks: (host) => {
    const name = Buffer.from(host)
    return Buffer.concat([
      Buffer.from([5, 1, 0, 5, 1, 0, 3, Math.min(name.length, 255)]),
      name.subarray(0, 255),
      Buffer.from([1, 187]),
    ])
  },
}

describe('a host', () => {
  let stage: EgressFixture
  before(async () => {
    stage = await EgressFixture.open({
      clock: fastClock(),
      policy: testPolicy(['example.com', '*.example.com']),
    })
    stage.name('example.com', ['192.0.2.10'])
    await stage.place(
      '192.0.2.10',
      80,
      createServer((_, res) => res.end('there')),
    )
  })
  after(() => stage.close())

  async function ask(way: string, host: string): Promise<string> {
    const socket = await stage.podd.proxy()
    socket.write(WAYS[way]?.(host) ?? '')
    return readAll(socket)
  }

  test('positive control: a valid host is reached in each way', async () => {
    const http = await ask('absolute', 'example.com')
    assert.match(http, /^HTTP\/1\.1 200 OK[\s\S]*there$/)
    const tunnel = await stage.podd.proxy()
    tunnel.write(WAYS['connect']?.('EXAMPLE.com.') ?? '')
    assert.match(await readUntil(tunnel, '\r\n\r\n'), /^HTTP\/1\.1 200 /)
    const socks = await stage.podd.proxy()
    socks.write(WAYS['socks']?.('example.com') ?? '')
    assert.equal((await readUntil(socks, '\x05\x00\x05\x00')).length >= 4, true)
    tunnel.destroy()
    socks.destroy()
    assert.deepEqual(new Set(stage.asked), new Set(['example.com']))
    stage.asked.length = stage.dialled.length = 0
  })

  for (const way of Object.keys(WAYS))
    test(`NET-4 each of ${HOSTS.length} hostile host names is refused before it is resolved, by ${way}`, async () => {
      assert.ok(HOSTS.length > 200)
      for (const host of HOSTS) {
        // Behind a method a space only separates, and a slash only begins the path.
        if (way === 'connect' && host.startsWith(' ')) continue
        const answer = await ask(way, host)
        if (way === 'socks') assert.match(hex(answer), /^0500050[12]/, JSON.stringify(host))
        else assert.match(answer, /^HTTP\/1\.1 40[03] /, JSON.stringify(host))
      }
      assert.deepEqual(stage.asked, [])
      assert.deepEqual(stage.dialled, [])
    })

  for (const way of Object.keys(WAYS))
    test(`NET-4 each of ${ADDRESSES.length} spellings of an address is refused, by ${way}`, async () => {
      assert.ok(ADDRESSES.length >= 40)
      for (const host of ADDRESSES) {
        const answer = await ask(way, host)
        if (way === 'socks') assert.match(hex(answer), /^0500050[12]/, JSON.stringify(host))
        else assert.match(answer, /^HTTP\/1\.1 40[03] /, JSON.stringify(host))
      }
      assert.deepEqual(stage.asked, [])
      assert.deepEqual(stage.dialled, [])
    })

  test('a host that only resembles a rule is refused', async () => {
    for (const host of [
      'evil-example.com',
      'xexample.com',
      'example.com.evil.test',
      'example.co',
      'com',
      'example.org',
    ]) {
      const answer = await ask('connect', host)
      assert.match(answer, /^HTTP\/1\.1 403 /, host)
    }
    assert.deepEqual(stage.asked, [])
  })

  test('a host is reached only on the ports of its rule', async () => {
    for (const port of ['22', '25', '6379', '8443', '65535']) {
      const socket = await stage.podd.proxy()
      socket.write(`CONNECT example.com:${port} HTTP/1.1\r\n\r\n`)
      assert.match(await readAll(socket), /^HTTP\/1\.1 403 /, port)
    }
    for (const port of ['0', '65536', '-1', '443x', '', '0443', '+443', '4 43', '443:443', '99999999999']) {
      const socket = await stage.podd.proxy()
      socket.write(`CONNECT example.com:${port} HTTP/1.1\r\n\r\n`)
      assert.match(await readAll(socket), /^HTTP\/1\.1 400 /, port)
    }
    assert.deepEqual(stage.asked, [])
  })

  test('a refusal is a complete response that does not quote the request', async () => {
    const socket = await stage.podd.proxy()
    socket.write('CONNECT evil.test:443 HTTP/1.1\r\n\r\n')
    const answer = await readAll(socket)
    const [head = '', body = ''] = answer.split('\r\n\r\n')
    assert.match(head, /Connection: close/)
    assert.match(head, /X-AgentPod-Refused: rule\.none/)
    assert.match(head, new RegExp(`Content-Length: ${body.length}`))
    assert.match(body, /evil\.test/)
    assert.match(body, /agentpod allow/)
    const sly = await stage.podd.proxy()
    sly.write('CONNECT evil\x1b[31m.test:443 HTTP/1.1\r\n\r\n')
    assert.doesNotMatch(await readAll(sly), /31m/)
  })

  test('a malformed header line is neither resolved nor answered', async () => {
    for (const line of [
      'nonsense\n',
      '{"v":1,"kind":"direct","name":"a\\u0000.example.com","port":443}\n',
      `${'x'.repeat(2000)}\n`,
    ]) {
      const socket = await stage.podd.handOver(line)
      assert.equal(await readAll(socket), '')
    }
    assert.deepEqual(stage.asked, [])
  })
})
