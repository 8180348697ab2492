import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SeededRandom } from '../../testing/seeded-random.ts'
import { readHeaderLine } from './header-line.ts'

const read = (text: string) => readHeaderLine(Buffer.from(text))

describe("podd's line", () => {
  test('a header line names the proxy, a name or an address', () => {
    assert.deepEqual(read('{"v":1,"kind":"proxy"}'), { kind: 'proxy' })
    const named = read('{"v":1,"kind":"direct","name":"Example.com","port":443}')
    assert.deepEqual(named, { kind: 'direct', destination: { kind: 'name', host: 'example.com', port: 443 } })
    const addressed = read('{"v":1,"kind":"direct","address":"192.0.2.7","port":22}')
    assert.equal(addressed?.kind === 'direct' && addressed.destination.kind, 'address')
  })

  test('a header line with an invalid host is malformed and recorded', () => {
    for (const name of ['localhost\\u0000.example.com', 'a b', '', '127.0.0.1', '0x7f.1', 'a..b'])
      assert.deepEqual(read(`{"v":1,"kind":"direct","name":"${name}","port":443}`), { kind: 'malformed' })
    for (const address of ['0x7f.1', '127.1', '::1%lo', '[::1]', 'example.com', ''])
      assert.deepEqual(read(`{"v":1,"kind":"direct","address":"${address}","port":1}`), { kind: 'malformed' })
  })

  const refused = [
    ...['', '{}', 'null', '[]', '1', '"x"', '{"v":1}', '{"v":2,"kind":"proxy"}', '{"v":"1","kind":"proxy"}'],
    ...['{"v":1,"kind":"proxy","port":1}', '{"v":1,"kind":"proxy","v":1}', '{"v":1,"kind":"proxy"}x'],
    ...[
      '{"v":1,"kind":"proxy","__proto__":{}}',
      '{"v":1,"kind":"other"}',
      '{"v":1,"kind":"proxy","name":"a"}',
    ],
    '{"v":1,"kind":"direct","name":"a.example"}',
    '{"v":1,"kind":"direct","name":"a.example","port":0}',
    '{"v":1,"kind":"direct","name":"a.example","port":65536}',
    '{"v":1,"kind":"direct","name":"a.example","port":1.5}',
    '{"v":1,"kind":"direct","name":"a.example","port":"443"}',
    '{"v":1,"kind":"direct","name":"a.example","address":"192.0.2.1","port":443}',
    '{"v":1,"kind":"direct","name":"a.example","name":"b.example","port":443}',
    '{"v":1,"kind":"direct","name":["a.example"],"port":443}',
    '{"v":1,"kind":"direct","name":"a.example","port":443,"user":"root"}',
    `{"v":1,"kind":"direct","name":"${'a'.repeat(1100)}","port":443}`,
  ]
  for (const text of refused) test(`is not ${text.slice(0, 60)}`, () => assert.equal(read(text), undefined))

  test('a header line of random bytes is parsed without an exception', () => {
    const random = new SeededRandom(5)
    const good = Buffer.from('{"v":1,"kind":"direct","name":"example.com","port":443}')
    for (let round = 0; round < 20_000; round++) {
      const bytes = Buffer.from(good)
      for (let change = random.below(4); change >= 0; change--)
        bytes[random.below(bytes.length)] = random.below(256)
      const header = readHeaderLine(bytes)
      if (header?.kind !== 'direct' || header.destination.kind !== 'name') continue
      assert.match(header.destination.host, /^[a-z0-9.-]+$/)
    }
  })
})
