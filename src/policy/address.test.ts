import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import { describe, test } from 'node:test'
import { SeededRandom } from '../testing/seeded-random.ts'
import {
  type Address,
  type AddressClass,
  classify,
  formatAddress,
  isDialable,
  parseAddress,
  readAddress,
} from './address.ts'
import { readPort } from './port.ts'

const CLASSES: readonly (readonly [AddressClass, string])[] = [
  ['public', '1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0'],
  [
    'public',
    '172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255',
  ],
  [
    'public',
    '2606:4700::1111 2001:200::1 2003::1 3ffe::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 ::8.8.8.8',
  ],
  ['public', '2001:0:4136:e378:8000:63bf:f7f7:f7f7'],
  ['documentation', '192.0.2.1 198.51.100.7 203.0.113.255 2001:db8::1 3fff::1 ::ffff:192.0.2.1'],
  [
    'private',
    '10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fd12:3456::1 ::ffff:10.0.0.1',
  ],
  ['private', '64:ff9b::10.0.0.1 2002:a00:1:: ::10.0.0.1 ::ffff:0:10.0.0.1'],
  ['cgnat', '100.64.0.0 100.127.255.255 ::ffff:100.64.0.1'],
  ['loopback', '127.0.0.1 127.255.255.255 ::1 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::127.0.0.1'],
  ['loopback', '64:ff9b::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: 2002:7f00:1::1 ::ffff:0:127.0.0.1'],
  ['loopback', '2001:0:4136:e378:8000:63bf:80ff:fffe'],
  ['unspecified', '0.0.0.0 :: 0:0:0:0:0:0:0:0 ::ffff:0.0.0.0 64:ff9b::'],
  ['link-local', '169.254.0.1 169.254.255.255 fe80::1 febf::1 ::ffff:169.254.1.1'],
  ['metadata', '169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 fd00:ec2::254 fd20:ce::254'],
  [
    'metadata',
    '::ffff:169.254.169.254 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: ::169.254.169.254',
  ],
  ['metadata', '2001:0:4136:e378:8000:63bf:5601:5601 fe80::a9fe:a9fe ::ffff:0:a9fe:a9fe'],
  ['multicast', '224.0.0.1 239.255.255.255 ff02::1 ff0e::1 ::ffff:224.0.0.251'],
  ['broadcast', '255.255.255.255 ::ffff:255.255.255.255'],
  ['benchmark', '198.18.0.0 198.19.255.255 2001:2::1 ::ffff:198.18.0.1'],
  [
    'reserved',
    '0.1.2.3 192.0.0.1 192.88.99.1 240.0.0.1 255.255.255.254 100::1 64:ff9b:1::7f00:1 64:ff9b:1:ffff::1',
  ],
  ['reserved', '2001:10::1 2001:20::1 fec0::1 4000::1 5f00::1 fe00::1 64:ff9b:2::1 1::1 ::2'],
]

const MALFORMED = [
  ...[
    '',
    ' ',
    '1',
    '1.2',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.',
    '.1.2.3',
    '1..2.3',
    '256.1.1.1',
    '1.1.1.256',
    '01.2.3.4',
  ],
  ...[
    '1.2.3.04',
    '0x7f.0.0.1',
    '127.0.0.1 ',
    ' 127.0.0.1',
    '127.0.0.1\n',
    '127.0.0.1\0',
    '+1.2.3.4',
    '-1.2.3.4',
  ],
  ...[
    '1.2.3.4/32',
    '1.2.3.4:80',
    '１.2.3.4',
    '1e1.2.3.4',
    '[::1]',
    '::1%lo',
    '::1/128',
    ':',
    ':::',
    '1::2::3',
    ':1',
  ],
  ...[
    '1:',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7::8',
    '::12345',
    '::g',
    '1.2.3.4::',
    '::1.2.3.4:5',
  ],
  ...[
    '::1.2.3',
    '::ffff:1.2.3.256',
    '::ffff:01.2.3.4',
    '0:0:0:0:0:0:0:0:0',
    '::1::',
    '1:2:3:4:5:6:7:1.2.3.4',
    '::٣',
  ],
]

describe('an address', () => {
  for (const [name, texts] of CLASSES) {
    for (const text of texts.split(' ')) {
      test(`${text} is ${name}`, () => assert.equal(classify(parseAddress(text)).class, name))
    }
  }

  test('the form of an embedded IPv4 address is recognized', () => {
    const forms = [
      ['8.8.8.8', 'plain'],
      ['2606:4700::1', 'plain'],
      ['::1', 'plain'],
      ['::ffff:8.8.8.8', 'v4-mapped'],
      ['::ffff:0:8.8.8.8', 'v4-translated'],
      ['::8.8.8.8', 'v4-compatible'],
      ['64:ff9b::8.8.8.8', 'nat64'],
      ['64:ff9b:1::8.8.8.8', 'nat64-local'],
      ['2002:808:808::', '6to4'],
      ['2001::1', 'teredo'],
    ]
    for (const [text = '', form] of forms) assert.equal(classify(parseAddress(text)).form, form, text)
  })

  test('other spellings of an address are refused', () => {
    for (const text of MALFORMED) assert.equal(readAddress(text), undefined, JSON.stringify(text))
    assert.throws(() => parseAddress('1.2.3'), { reason: 'address.malformed' })
  })

  test('an address is formatted in one form', () => {
    const forms = [
      ['0:0:0:0:0:0:0:1', '::1'],
      ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
      ['1:0:2:0:3:0:4:0', '1:0:2:0:3:0:4:0'],
      ['1:2:3:4:5:6:0:0', '1:2:3:4:5:6::'],
      ['::', '::'],
      ['::FFFF:7F00:1', '::ffff:127.0.0.1'],
      ['127.0.0.1', '127.0.0.1'],
    ]
    for (const [text = '', form] of forms) assert.equal(formatAddress(parseAddress(text)), form)
  })
})

describe('dialling', () => {
  const dialable = (name: string, allowPrivate: boolean) => isDialable(parseAddress(name), { allowPrivate })

  test('a public address is dialable plain, mapped or through NAT64, but not through a tunnel', () => {
    for (const text of ['8.8.8.8', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '192.0.2.1'])
      assert.ok(dialable(text, false), text)
    for (const text of [
      '2002:808:808::1',
      '::8.8.8.8',
      '::ffff:0:8.8.8.8',
      '2001:0:4136:e378:8000:63bf:f7f7:f7f7',
    ])
      assert.ok(!dialable(text, true), text)
  })

  test('a private address is dialable only under a private rule', () => {
    for (const text of [
      '10.0.0.1',
      '192.168.1.1',
      '172.16.0.1',
      'fd12::1',
      '100.64.0.1',
      '::ffff:10.0.0.1',
    ]) {
      assert.ok(!dialable(text, false), text)
      assert.ok(dialable(text, true), text)
    }
    assert.ok(!dialable('64:ff9b::10.0.0.1', true))
  })

  test('no rule allows the host, link-local, metadata, multicast and reserved addresses', () => {
    const open: readonly AddressClass[] = ['public', 'documentation', 'private', 'cgnat']
    const closed = CLASSES.filter(([name]) => !open.includes(name)).flatMap(([, texts]) => texts.split(' '))
    assert.ok(closed.length >= 40)
    for (const text of closed) assert.ok(!dialable(text, true), text)
  })
})

describe('random addresses', () => {
  const random = new SeededRandom(7)
  const draw = (bytes: number) => random.bytes(bytes).reduce((bits, byte) => (bits << 8n) | BigInt(byte), 0n)
  const v4 = (bits: bigint): Address => ({ family: 4, bits: (0xffffn << 32n) | bits })
  const v6 = (bits: bigint): Address => ({ family: 6, bits })

  test('random addresses are parsed from their text, as Node does', () => {
    for (let run = 0; run < 5000; run++) {
      // Zeros are what the text is clever about.
      const mask = Array.from({ length: 8 }, () => (random.below(2) ? 0xffffn : 0n))
      const bits = draw(16) & mask.reduce<bigint>((all, group) => (all << 16n) | group, 0n)
      for (const address of [v6(bits), v4(draw(4))]) {
        const text = formatAddress(address)
        assert.deepEqual(parseAddress(text), address, text)
        assert.equal(isIP(text), address.family, text)
      }
    }
  })

  test('random addresses keep their class in every embedding, and none makes them dialable', () => {
    const wrappings: readonly ((bits: bigint) => bigint)[] = [
      (bits) => (0xffffn << 32n) | bits,
      (bits) => (0xffffn << 48n) | bits,
      (bits) => (0x64ff9bn << 96n) | bits,
      (bits) => (0x2002n << 112n) | (bits << 80n) | draw(8),
      (bits) => (0x20010000n << 96n) | (draw(8) << 32n) | (bits ^ 0xffff_ffffn),
    ]
    const heads = [0n, 10n, 100n, 127n, 169n, 172n, 192n, 198n, 203n, 224n, 255n]
    for (let run = 0; run < 5000; run++) {
      const bits = run % 2 ? draw(4) : ((heads[random.below(heads.length)] ?? 0n) << 24n) | draw(3)
      const plain = v4(bits)
      for (const wrap of wrappings) {
        const wrapped = v6(wrap(bits))
        assert.equal(classify(wrapped).class, classify(plain).class, formatAddress(wrapped))
        for (const allowPrivate of [false, true])
          if (isDialable(wrapped, { allowPrivate })) assert.ok(isDialable(plain, { allowPrivate }))
      }
    }
  })

  test('random private and local addresses, as Node classifies them, are not dialable', () => {
    const local = new BlockList()
    const ranges = {
      ipv4: '10.0.0.0/8 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 224.0.0.0/3',
      ipv6: 'fc00::/7 fe80::/10 ff00::/8',
    } as const
    for (const family of ['ipv4', 'ipv6'] as const) {
      for (const [start = '', length] of ranges[family].split(' ').map((one) => one.split('/')))
        local.addSubnet(start, Number(length), family)
    }
    let found = 0
    for (let run = 0; run < 20_000; run++) {
      const address = run % 2 ? v4(draw(4)) : v6((BigInt(0xfc + random.below(4)) << 120n) | draw(15))
      const text = formatAddress(address)
      if (!(address.family === 4 ? local.check(text, 'ipv4') : local.check(text, 'ipv6'))) continue
      found++
      assert.ok(!isDialable(address, { allowPrivate: false }), text)
    }
    assert.ok(found > 5000)
  })
})

test('a port is plain digits from 1 to 65535', () => {
  for (const text of [
    '',
    '0',
    '00',
    '080',
    '65536',
    '99999',
    '100000',
    '-1',
    '+1',
    '443x',
    ' 443',
    '443\n',
    '0x50',
    '1e3',
    '４43',
  ])
    assert.equal(readPort(text), undefined, JSON.stringify(text))
  assert.deepEqual(['1', '443', '65535'].map(readPort), [1, 443, 65_535])
})
