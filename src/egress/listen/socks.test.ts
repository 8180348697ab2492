import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { EgressFixture, readAll, readUntil, testPolicy } from '../testing/egress-fixture.ts'

describe('SOCKS5', () => {
  let stage: EgressFixture
  before(async () => {
    const addresses = { allowed: ['192.0.2.0/24', '2001:db8::/32'], denied: [] }
    stage = await EgressFixture.open({
      policy: testPolicy(['raw.example:7000', 'none.example:7000'], { addresses }),
    })
    stage.name('raw.example', ['192.0.2.10'])
    for (const address of ['192.0.2.10', '2001:db8::1'])
      await stage.place(
        address,
        7000,
        createServer((socket) => socket.on('error', () => undefined).end('banner')),
      )
  })
  after(() => stage.close())

  const PORT = [7000 >> 8, 7000 & 255]
  async function say(...bytes: readonly number[]): Promise<string> {
    const socket = await stage.podd.proxy()
    socket.write(Buffer.from(bytes))
    return Buffer.from(await readAll(socket), 'latin1').toString('hex')
  }
  const name = (host: string): number[] => [3, host.length, ...Buffer.from(host)]
  const v6 = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

  test('NET-2 SOCKS5 reaches names and addresses of both families', async () => {
    for (const host of [name('raw.example'), [1, 192, 0, 2, 10], [4, ...v6]]) {
      const socket = await stage.podd.proxy()
      socket.write(Buffer.from([5, 2, 2, 0, 5, 1, 0, ...host, ...PORT]))
      assert.match(await readUntil(socket, 'banner'), /banner$/)
    }
  })

  test('SOCKS5 is parsed however it is split into chunks', async () => {
    const socket = await stage.podd.proxy()
    for (const byte of [5, 1, 0, 5, 1, 0, ...name('raw.example'), ...PORT]) {
      socket.write(Buffer.from([byte]))
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.match(await readUntil(socket, 'banner'), /banner$/)
  })

  const REFUSED: Readonly<Record<string, readonly [bytes: readonly number[], answer: string]>> = {
    'a method with a password only': [[5, 1, 2], '05ff'],
    'no method at all': [[5, 0], '05ff'],
    BIND: [[5, 1, 0, 5, 2, 0, ...name('raw.example'), ...PORT], '05000507'],
    'UDP ASSOCIATE': [[5, 1, 0, 5, 3, 0, ...name('raw.example'), ...PORT], '05000507'],
    'an unknown kind of address': [[5, 1, 0, 5, 1, 0, 9, 1, 1, ...PORT], '05000508'],
    'an empty name': [[5, 1, 0, 5, 1, 0, 3, 0, ...PORT], '05000501'],
    'a name with a NUL': [[5, 1, 0, 5, 1, 0, ...name('evil.test\0.raw.example'), ...PORT], '05000501'],
    'port 0': [[5, 1, 0, 5, 1, 0, ...name('raw.example'), 0, 0], '05000501'],
    'a name that no rule allows': [[5, 1, 0, 5, 1, 0, ...name('evil.test'), ...PORT], '05000502'],
    'an address that no list allows': [[5, 1, 0, 5, 1, 0, 1, 203, 0, 113, 1, ...PORT], '05000502'],
    'a loopback address': [[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, ...PORT], '05000502'],
    'a name without an address': [[5, 1, 0, 5, 1, 0, ...name('none.example'), ...PORT], '05000504'],
    'a request of another version': [[5, 1, 0, 4, 1, 0, 1, 192, 0, 2, 10, ...PORT], '0500'],
  }
  for (const [what, [bytes, answer]] of Object.entries(REFUSED))
    test(`SOCKS5 refuses ${what}`, async () => assert.equal((await say(...bytes)).startsWith(answer), true))

  test('SOCKS5 resolves only allowed names', () =>
    assert.deepEqual(new Set(stage.asked), new Set(['raw.example', 'none.example'])))
})
