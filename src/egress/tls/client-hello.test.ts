import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { Duplex } from 'node:stream'
import { describe, test } from 'node:test'
import { connect } from 'node:tls'
import { SeededRandom } from '../../testing/seeded-random.ts'
import { buildHello, records, vector } from '../testing/hello.ts'
import { type ClientHello, LONGEST_HELLO, readClientHello } from './client-hello.ts'

function whole(bytes: Buffer): ClientHello {
  const reading = readClientHello(bytes)
  assert.equal(reading.state, 'whole')
  return reading.state === 'whole' ? reading.hello : assert.fail()
}

describe('a ClientHello', () => {
  test('a ClientHello gives its name and protocols', () => {
    const { names, protocols, hasEch } = whole(buildHello({ names: ['example.com'] }))
    assert.deepEqual(names?.map(String), ['example.com'])
    assert.deepEqual(protocols, ['h2', 'http/1.1'])
    assert.equal(hasEch, false)
  })

  test('a ClientHello is read from any number of records', () => {
    for (const recordBytes of [10, 50, 100])
      assert.deepEqual(whole(buildHello({ names: ['example.com'], recordBytes })).names?.map(String), [
        'example.com',
      ])
  })

  test('ClientHellos of real clients are read', async () => {
    for (const options of [{ minVersion: 'TLSv1.3' }, { maxVersion: 'TLSv1.2' }] as const) {
      const said = new EventEmitter()
      const heard = once(said, 'bytes') as Promise<[Buffer]>
      const wire = new Duplex({
        read() {},
        write: (chunk: Buffer, _, done) => {
          said.emit('bytes', chunk)
          done()
        },
      })
      const tls = connect({ ...options, socket: wire, servername: 'example.com' })
      tls.on('error', () => undefined)
      const [bytes] = await heard
      assert.deepEqual(whole(bytes).names?.map(String), ['example.com'])
      tls.destroy()
    }
  })

  test('an encrypted ClientHello is recognized', () => {
    assert.equal(
      whole(buildHello({ names: ['a.example'], extensions: [[0xfe0d, Buffer.alloc(40)]] })).hasEch,
      true,
    )
  })

  test('a ClientHello without extensions has no name', () => {
    assert.equal(whole(buildHello()).names, undefined)
    assert.equal(whole(buildHello({ hasNoExtensions: true })).names, undefined)
  })

  test('a ClientHello returns all its names', () => {
    assert.equal(whole(buildHello({ names: ['a.example', 'b.example'] })).names?.length, 2)
  })

  test('a truncated ClientHello needs more bytes at every length', () => {
    const bytes = buildHello({ names: ['example.com'], recordBytes: 40 })
    for (let end = 0; end < bytes.length; end++)
      assert.equal(readClientHello(bytes.subarray(0, end)).state, 'more', `at ${end}`)
  })

  const good = buildHello({ names: ['example.com'] })
  const handshake = good.subarray(5)
  const bad: readonly (readonly [name: string, bytes: Buffer])[] = [
    ['a record of another kind', Buffer.concat([Buffer.from([23]), good.subarray(1)])],
    ['a record of SSL 2', Buffer.concat([Buffer.from([22, 2]), good.subarray(2)])],
    ['an empty record', Buffer.from([22, 3, 1, 0, 0])],
    ['a record that is too long', Buffer.from([22, 3, 1, 0x40, 1])],
    ['another handshake message', records(Buffer.concat([Buffer.from([2]), handshake.subarray(1)]), 4096)],
    ['a message that is too long', Buffer.from([22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff])],
    ['something behind the message', records(Buffer.concat([handshake, Buffer.from([0])]), 4096)],
    [
      'two extensions of one type',
      buildHello({ names: ['a.example'], extensions: [[0, vector(2, Buffer.from([0, 0, 1, 97]))]] }),
    ],
    ['a name of another type', buildHello({ names: ['a.example'], nameType: 1 })],
    ['an empty name', buildHello({ names: [''] })],
    ['an empty list of names', buildHello({ names: [] })],
    ['a session that is too long', buildHello({ names: ['a.example'], sessionBytes: 33 })],
    [
      'a list that is longer than its extension',
      buildHello({ extensions: [[0, Buffer.from([0, 9, 0, 0, 1, 97])]] }),
    ],
    [
      'a list that is shorter than its extension',
      buildHello({ extensions: [[0, Buffer.from([0, 4, 0, 0, 1, 97, 0])]] }),
    ],
    ['more than a hundred records', records(handshake, 1)],
  ]
  for (const [name, bytes] of bad)
    test(`a ClientHello with ${name} is bad`, () => assert.equal(readClientHello(bytes).state, 'bad'))

  test('random bytes as a ClientHello cause no exception', () => {
    const random = new SeededRandom(11)
    for (let round = 0; round < 20_000; round++) {
      const bytes = Buffer.from(good)
      for (let change = random.below(6); change >= 0; change--)
        bytes[random.below(bytes.length)] = random.below(256)
      const cut = bytes.subarray(0, 1 + random.below(bytes.length))
      const reading = readClientHello(cut)
      if (reading.state !== 'whole') continue
      assert.ok((reading.hello.names ?? []).every((name) => name.length <= LONGEST_HELLO))
    }
    for (let round = 0; round < 5000; round++) readClientHello(Buffer.from(random.bytes(random.below(400))))
  })
})
