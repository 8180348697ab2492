import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { describe, test } from 'node:test'
import { domainToASCII } from 'node:url'
import { isAgentPodError } from '../core/error.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { type HostRefusal, parseHostName, readHostName } from './host-name.ts'
import { isNeverReachable, isPublicName } from './special-name.ts'

const UMLAUT = 'xn--bcher-kva.example'
const label63 = 'a'.repeat(63)
const name253 = [label63, label63, label63, 'b'.repeat(61)].join('.')

/** What is written, and the one form of it. */
const GOOD: readonly (readonly [written: string, host: string])[] = [
  ...[
    'example.com',
    'a.b.c.d.e.f.example',
    'localhost',
    'mirror',
    'a',
    'a.b',
    '1a',
    'a1',
    '3com.example',
  ].map(same),
  ...[
    'a-b.example',
    'a--b.example',
    'r3---sn-x.example',
    'ab--cd.example',
    '0.example',
    '1.2.3.4.example',
  ].map(same),
  ...[
    '127.0.0.1.example',
    '0x7f.example',
    'example.0xg',
    'example.1e3',
    'x0.y0',
    'deadbeef',
    'ff00.cafe',
  ].map(same),
  ...['4.3.2.1.in-addr.arpa', label63, `${label63}.example`, name253, UMLAUT, 'xn--n3h.example'].map(same),
  ...['xn--e1afmkfd.xn--p1ai', 'xn--r8jz45g.xn--zckzah', 'xn--zca.example', 'xn--ls8h.example'].map(same),
  ['EXAMPLE.com', 'example.com'],
  ['eXaMpLe.CoM', 'example.com'],
  ['example.com.', 'example.com'],
  ['EXAMPLE.COM.', 'example.com'],
  [`${name253}.`, name253],
  ['XN--BCHER-KVA.example', UMLAUT],
  ['bücher.example', UMLAUT],
  ['BÜCHER.Example', UMLAUT],
  ['bu\u0308cher.example', UMLAUT],
  ['bücher.example.', UMLAUT],
  ['faß.example', 'xn--fa-hia.example'],
  ['☃.example', 'xn--n3h.example'],
  ['пример.рф', 'xn--e1afmkfd.xn--p1ai'],
  ['例え.テスト', 'xn--r8jz45g.xn--zckzah'],
  ['א1.example', 'xn--1-zhc.example'],
]

function same(host: string): readonly [string, string] {
  return [host, host]
}

const wide = (text: string) =>
  text.replace(/[!-~]/g, (sign) => String.fromCodePoint((sign.codePointAt(0) ?? 0) + 0xfee0))
const circled = (text: string) =>
  text.replace(/[1-9]/g, (digit) => String.fromCodePoint(0x245f + Number(digit))).replaceAll('0', '⓪')
const mathematical = (text: string) =>
  text.replace(/[0-9]/g, (digit) => String.fromCodePoint(0x1d7ce + Number(digit)))
const raised = (text: string) => text.replace(/[0-9]/g, (digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)] ?? '')

/** Every way that inet_aton has to spell an address, and some it has not. */
function spellings(a: number, b: number, c: number, d: number): string[] {
  const whole = ((a * 256 + b) * 256 + c) * 256 + d
  const [hex, octal] = [(n: number) => `0x${n.toString(16)}`, (n: number) => `0${n.toString(8)}`]
  const parts = [a, b, c, d]
  const dotted = parts.join('.')
  return [
    dotted,
    `${dotted}.`,
    parts.map(hex).join('.'),
    parts.map(octal).join('.'),
    parts.map((n) => String(n).padStart(3, '0')).join('.'),
    `${hex(a)}.${octal(b)}.${c}.${d}`,
    `${a}.${b}.${c * 256 + d}`,
    `${a}.${(b * 256 + c) * 256 + d}`,
    `${hex(a)}.${hex((b * 256 + c) * 256 + d)}`,
    String(whole),
    hex(whole),
    hex(whole).toUpperCase(),
    octal(whole),
    `0${octal(whole)}`,
    `0b${whole.toString(2)}`,
    `0o${whole.toString(8)}`,
    `${dotted}.0`,
    `0.${dotted}`,
    `[${dotted}]`,
    `[::ffff:${dotted}]`,
    `::ffff:${dotted}`,
    `[64:ff9b::${dotted}]`,
    wide(dotted),
    circled(dotted),
    mathematical(dotted),
    raised(dotted),
    dotted.replaceAll('.', '。'),
    dotted.replaceAll('.', '．'),
    dotted.replaceAll('.', '｡'),
    dotted.replace(/[0-9]/g, (digit) => `%3${digit}`),
    dotted.replaceAll('.', '%2e'),
    `${dotted}%00.example.com`,
    `${dotted}\0.example.com`,
    `${dotted} .example.com`,
    `${dotted}:80`,
    `user@${dotted}`,
  ]
}

const SIGNS = [...Array.from({ length: 33 }, (_, code) => String.fromCharCode(code)), '\x7f', '\x80', '\x85']
const PUNCTUATION = [...'!"#$%&\'()*+,/:;<=>?@[\\]^_`{|}~']
const SLY = [
  ...[
    '\u00a0',
    '\u00ad',
    '\u200b',
    '\u200c',
    '\u200d',
    '\u2028',
    '\u202e',
    '\u2060',
    '\ufeff',
    '\u034f',
    '\u180e',
  ],
  ...[
    '／',
    '＼',
    '＠',
    '＃',
    '？',
    '：',
    '％',
    '\u2024',
    '\u2025',
    '\ufe52',
    '。',
    '．',
    '｡',
    '℀',
    '℆',
    '\ufffd',
  ],
]

const HOSTILE: readonly string[] = [
  ...spellings(127, 0, 0, 1),
  ...spellings(169, 254, 169, 254),
  ...spellings(10, 1, 2, 3),
  ...[...SIGNS, ...PUNCTUATION, ...SLY].flatMap((sign) => [
    `localhost${sign}.example.com`,
    `example.com${sign}`,
    `${sign}example.com`,
  ]),
  ...['%00', '%0d%0a', '%20', '%2e', '%2f', '%40', '%23', '%3f', '%5c', '%c0%ae', '%u002e', '%'].map(
    (escaped) => `localhost${escaped}.example.com`,
  ),
  ...[
    '::',
    '::1',
    '[::1]',
    '[::]',
    '::1%eth0',
    'fe80::1%25eth0',
    '[fe80::1%eth0]',
    '[::1',
    '::1]',
    '[]',
    '[::1].',
  ],
  ...['fd00:ec2::254', '[fd00:ec2::254]', '2002:7f00:1::', '64:ff9b::7f00:1', '0:0:0:0:0:0:0:1', '[v1.a:b]'],
  ...[
    '0',
    '1',
    '00',
    '0x',
    '0X',
    '0x0',
    '127.1',
    '127.0.1',
    '0177.1',
    '0x7f.1',
    '1.',
    '4294967296',
    '256.256.256.256',
  ],
  ...[
    'example.0',
    'example.00',
    'example.1',
    'example.0x',
    'example.0x1f',
    'example.0b1',
    'a.b.127',
    '1.2.3.4.5',
  ],
  ...[
    '',
    '.',
    '..',
    '...',
    '.example.com',
    'example..com',
    'example.com..',
    '..example.com',
    'a.',
    'a..',
  ].filter((name) => name !== 'a.'),
  ...[
    '-a.example',
    'a-.example',
    '-.example',
    '-',
    'a.-b',
    'a.b-',
    '_dmarc.example.com',
    'a_b.example',
    '*.example.com',
  ],
  ...[
    '*',
    '*.com',
    'a*.example',
    'http://example.com',
    'example.com/',
    'example.com:443',
    'user:pw@example.com',
  ],
  ...[
    `${label63}a.example`,
    `${name253}c`,
    `${'a.'.repeat(127)}aa`,
    'a'.repeat(5000),
    `${'ü'.repeat(60)}.example`,
  ],
  ...[
    'xn--.example',
    'xn--a.example',
    'xn--abc-.example',
    'xn--0.example',
    'xn--99999999.example',
    'xn--ab-yuc.example',
  ],
  ...[
    'xn--bcher-kvä.example',
    'xn--bücher.example',
    'bücher.xn--p1ai',
    'xn--example-.com',
    'xn--127-.0.0.1',
    'xn--',
  ],
  ...[
    wide('example.com'),
    wide('localhost'),
    'ⓔxample.com',
    '𝐞xample.com',
    'ſ.example',
    '\u212a.example',
    'ex\u00adample.com',
  ],
  ...[
    '1א.example',
    'a\u0301\u200d.example',
    '\u0301a.example',
    '\ud800.example',
    'a\udfff.example',
    '\u{e0061}.example',
  ],
  // What only mapping makes normal, beside a letter that makes the label international.
  ...['bü\u00adcher.example', 'bücher１.example', 'büｃher.example', 'bücher。example', 'büſher.example'],
]

describe('a host name', () => {
  test('the corpus of host names is large enough and has no duplicates', () => {
    assert.ok(new Set(GOOD.map(([written]) => written)).size >= 40)
    assert.ok(new Set(HOSTILE).size >= 200)
  })

  for (const [written, host] of GOOD) {
    test(`the host name ${JSON.stringify(written).slice(0, 40)} has one normal form, as text and as bytes`, () => {
      assert.equal(parseHostName(written), host)
      assert.equal(parseHostName(Buffer.from(written)), host)
      assert.equal(parseHostName(host), host)
    })
  }

  test('hostile host names are refused, as text and as bytes', () => {
    for (const written of HOSTILE) {
      assert.equal(readHostName(written).ok, false, JSON.stringify(written))
      assert.equal(readHostName(Buffer.from(written)).ok, false, `bytes of ${JSON.stringify(written)}`)
    }
  })

  test('positive control: hostile host names pass the checks that others used', () => {
    assert.ok(HOSTILE.filter((written) => written.toLowerCase().endsWith('.example.com')).length > 60)
    const spelled = spellings(127, 0, 0, 1)
    assert.ok(spelled.filter((written) => isIP(written) === 0).length > 20)
    assert.ok(spelled.filter((written) => domainToASCII(written) === '127.0.0.1').length > 10)
  })

  const reasons: readonly (readonly [string | Uint8Array, HostRefusal])[] = [
    ['', 'empty'],
    ['a'.repeat(5000), 'too-long'],
    [`${label63}a`, 'too-long'],
    [Uint8Array.of(0x61, 0xff), 'encoding'],
    [Uint8Array.of(0xc0, 0xae), 'encoding'],
    [Uint8Array.of(0xef, 0xbb, 0xbf, 0x61), 'idn'],
    ['\ud800', 'encoding'],
    ['localhost\0.example.com', 'character'],
    ['a..b', 'label'],
    ['-a', 'label'],
    ['127.1', 'address'],
    ['[::1]', 'address'],
    ['::1%eth0', 'address'],
    ['xn--a', 'idn'],
    [wide('127.0.0.1'), 'idn'],
  ]
  for (const [written, refusal] of reasons) {
    test(`the host name ${JSON.stringify(written).slice(0, 40)} is refused as ${refusal}`, () =>
      assert.deepEqual(readHostName(written), { ok: false, refusal }))
  }

  test('the error does not quote the host name', () => {
    const error = (() => {
      try {
        return parseHostName('evil\x1b[2J.example')
      } catch (thrown) {
        return thrown
      }
    })()
    assert.ok(isAgentPodError(error, 'invalid_argument'))
    assert.equal(error.reason, 'host.character')
    assert.doesNotMatch(error.message, /evil/)
  })

  test('random bytes are refused or give a normal host name', () => {
    const random = new SeededRandom(5)
    const signs = [...'aZ0-.xn--%:[]@\0 ü。１ß', '0x', '127', 'xn--bcher-kva', '\u00ad']
    for (let run = 0; run < 20_000; run++) {
      const written = Array.from(
        { length: 1 + random.below(8) },
        () => signs[random.below(signs.length)],
      ).join('')
      const reading = readHostName(written)
      if (!reading.ok) continue
      assert.match(reading.host, /^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/, JSON.stringify(written))
      assert.doesNotMatch(reading.host, /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/, JSON.stringify(written))
      assert.equal(parseHostName(reading.host), reading.host)
    }
  })
})

test('names of the host and of metadata services are never reachable', () => {
  for (const name of ['localhost', 'a.localhost', 'metadata.google.internal', 'instance-data', 'METADATA.'])
    assert.ok(isNeverReachable(parseHostName(name)), name)
  for (const name of ['example.com', 'localhost.example.com', 'notlocalhost', 'metadata.example.com'])
    assert.ok(!isNeverReachable(parseHostName(name)), name)
})

test('a single label and a local domain are not public', () => {
  for (const name of ['mirror', 'printer.local', 'db.internal', 'x.home.arpa'])
    assert.ok(!isPublicName(parseHostName(name)), name)
  for (const name of ['example.com', 'local.example', 'notlocal.example'])
    assert.ok(isPublicName(parseHostName(name)), name)
})
