import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { systemRandom } from '../util/random.ts'
import { encodedForms } from './encoded-forms.ts'
import { Masker } from './masker.ts'
import { PatternSearch } from './pattern-search.ts'
import { newPlaceholder } from './placeholder.ts'
import { mentions, Scanner } from './scanner.ts'
import { openSealedBox } from './sealed-box.ts'
import { fillSlot } from './slot.ts'

const VALUE = 'sk-live/äöü+"quoted" & <tag>=0123456789'
const bytes = Buffer.from(VALUE)

/** As encoders do that keep their lines short. */
function wrapped(text: string | Buffer, width: number, end: string): string {
  const whole = Buffer.from(text).toString('base64')
  return (whole.match(new RegExp(`.{1,${width}}`, 'g')) ?? []).join(end)
}

function escaped(text: string, characters: RegExp, isCapital = false): string {
  return JSON.stringify(text).replaceAll(characters, (one) => {
    const code = one.charCodeAt(0).toString(16).padStart(4, '0')
    return `\\u${isCapital ? code.toUpperCase() : code}`
  })
}

const FORMS: readonly (readonly [string, string | Buffer])[] = [
  ['as it is', VALUE],
  ['in a URL', encodeURIComponent(VALUE)],
  ['in a URL, lower-case codes', encodeURIComponent(VALUE).replaceAll(/%../g, (code) => code.toLowerCase())],
  ['in a form', new URLSearchParams({ k: VALUE }).toString()],
  ['in JSON', JSON.stringify({ error: VALUE })],
  ['in JSON of PHP', JSON.stringify(VALUE).replaceAll('/', '\\/')],
  ['in JSON of Go', escaped(VALUE, /[&<>]/g)],
  ['in JSON of Go, capital codes', escaped(VALUE, /[&<>]/g, true)],
  ['in JSON of Python', escaped(VALUE, /[\u0080-\uffff]/g)],
  ['in JSON of PHP that escapes all it can', escaped(VALUE, /[\u0080-\uffff]/g).replaceAll('/', '\\/')],
  ['in JSON of Gson', escaped(VALUE, /[&<>=']/g)],
  [
    'in JSON of .NET',
    escaped(VALUE.replaceAll('"', '\0'), /[&<>'+`]|[\u0080-\uffff]/g, true).replaceAll('\\u0000', '\\u0022'),
  ],
  ...[64, 76].flatMap((width) =>
    ['\n', '\r\n'].map(
      (end) =>
        [
          `in base64 of ${width} a line, ended by ${JSON.stringify(end)}`,
          wrapped(Buffer.concat([Buffer.alloc(31), bytes, bytes]), width, end),
        ] as const,
    ),
  ),
  ['in hex', bytes.toString('hex')],
  ['in capital hex', bytes.toString('hex').toUpperCase()],
  [
    'in HTML',
    VALUE.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
  ],
  ...[0, 1, 2, 3, 4].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before, 'x'), bytes, Buffer.from('tail')])
    return [
      [`in base64 behind ${before} bytes`, whole.toString('base64')] as const,
      [`in base64url behind ${before} bytes`, whole.toString('base64url')] as const,
    ]
  }),
]

describe('masking', () => {
  for (const [name, form] of FORMS) {
    test(`the value is masked ${name}, wherever a chunk ends`, () => {
      const whole = Buffer.concat([Buffer.from('before '), Buffer.from(form), Buffer.from(' after')])
      const once = new Masker([VALUE])
      const expected = Buffer.concat([once.push(whole), once.end()])
      assert.ok(once.hits > 0)
      assert.equal(expected.length, whole.length)
      const lines = expected.toString('latin1').replaceAll(/[\r\n]/g, '')
      for (const pattern of encodedForms(VALUE))
        assert.ok(!expected.includes(pattern) && !lines.includes(pattern.toString('latin1')))
      for (let at = 1; at < whole.length; at++) {
        const masker = new Masker([VALUE])
        const parts = [masker.push(whole.subarray(0, at)), masker.push(whole.subarray(at)), masker.end()]
        assert.deepEqual(Buffer.concat(parts), expected, `cut at ${at}`)
      }
    })
  }

  test('masking passes bytes at once if they cannot begin a value', () => {
    const masker = new Masker(['supersecretvalue'])
    assert.equal(masker.push(Buffer.from('data: 1\n\n')).toString(), 'data: 1\n\n')
    assert.equal(masker.push(Buffer.from('data: sup')).toString(), 'data: ')
    assert.equal(masker.push(Buffer.from('per\n\n')).toString(), 'supper\n\n')
    assert.equal(masker.end().length, 0)
  })

  test('masking does not hold back an ordinary line end', () => {
    const value = 'supersecretvalue-0123456789'
    const base64 = Buffer.from(value).toString('base64')
    const masker = new Masker([value])
    const line = `data: ${base64.slice(0, 5)}\n`
    assert.equal(masker.push(Buffer.from(line)).toString(), line)
    const rest = Buffer.concat([masker.push(Buffer.from(`${base64.slice(5)}|`)), masker.end()]).toString()
    assert.equal(rest, `${'*'.repeat(base64.length - 5)}|`)
  })

  test('masking does not wait for endless line ends', () => {
    const value = 'supersecretvalue-0123456789'
    const masker = new Masker([value])
    let sent = masker.push(Buffer.from(Buffer.from(value).toString('base64').slice(0, 20))).length
    for (let at = 0; at < 1000; at++) sent += masker.push(Buffer.from('\r\n')).length
    assert.ok(sent > 1900, String(sent))
  })

  test('overlapping values are masked, wherever a chunk ends', () => {
    for (let at = 1; at < 18; at++) {
      const masker = new Masker(['abcabcabc'])
      const whole = Buffer.from('..abcabcabcabcabc..')
      const parts = [masker.push(whole.subarray(0, at)), masker.push(whole.subarray(at)), masker.end()]
      assert.equal(Buffer.concat(parts).toString(), `..${'*'.repeat(15)}..`)
    }
  })

  test('masking does not change the input buffer', () => {
    const given = Buffer.from('supersecretvalue')
    new Masker(['supersecretvalue']).push(given)
    assert.equal(given.toString(), 'supersecretvalue')
  })

  test('masking byte by byte gives the same result as at once', () => {
    const text = `aaa${VALUE}bbb${VALUE}${VALUE.slice(0, 9)}`
    const masker = new Masker([VALUE])
    const parts = [...Buffer.from(text)].map((byte) => masker.push(Buffer.from([byte])))
    const stars = '*'.repeat(bytes.length)
    assert.equal(
      Buffer.concat([...parts, masker.end()]).toString(),
      `aaa${stars}bbb${stars}${VALUE.slice(0, 9)}`,
    )
  })
})

describe('scanning', () => {
  const placeholder = newPlaceholder(systemRandom)
  const forms = [
    placeholder,
    Buffer.from(placeholder).toString('base64'),
    Buffer.from(`user:${placeholder}`).toString('base64'),
    Buffer.from(`x:${placeholder}`).toString('base64url'),
    Buffer.from(placeholder).toString('hex'),
    [...placeholder].map((c) => `%${c.charCodeAt(0).toString(16)}`).join(''),
    [...placeholder].map((c, at) => (at % 2 ? c : `%${c.charCodeAt(0).toString(16).toUpperCase()}`)).join(''),
    JSON.stringify({ key: placeholder }),
    wrapped(`${'x'.repeat(20)}${placeholder}`, 64, '\n'),
    wrapped(`${'x'.repeat(50)}${placeholder}`, 76, '\r\n'),
    wrapped(placeholder, 4, '\n'),
  ]
  for (const form of forms) {
    test(`the scanner finds the placeholder as ${form.slice(0, 16)}…, wherever a chunk ends`, () => {
      const whole = Buffer.from(`a=b&key=${form}&c=d`)
      for (let at = 0; at < whole.length; at++) {
        const scanner = new Scanner([placeholder])
        const first = scanner.push(whole.subarray(0, at))
        assert.ok(scanner.push(whole.subarray(at)) || first, `cut at ${at}`)
      }
    })
  }

  test('the scanner does not find a placeholder in other text', () => {
    assert.equal(
      mentions(`agentpod is a project ${'%41'.repeat(100)} ${placeholder.slice(0, -1)}`, [placeholder]),
      false,
    )
    assert.equal(mentions('anything', []), false)
  })
})

describe('pattern search', () => {
  test('the pattern search finds what a plain search finds', () => {
    // A fixed sequence, so that what fails once fails again.
    let state = 1
    const next = (below: number): number => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0
      return (state >>> 8) % below
    }
    const word = (length: number): Buffer => Buffer.from(Array.from({ length }, () => 0x61 + next(2)))
    for (let round = 0; round < 300; round++) {
      const patterns = Array.from({ length: 1 + next(6) }, (_, text) => ({ bytes: word(6 + next(6)), text }))
      const finder = new PatternSearch(patterns)
      const text = word(next(200))
      const expected = patterns.flatMap(({ bytes, text: which }) =>
        [...text.keys()]
          .filter((at) => text.subarray(at, at + bytes.length).equals(bytes))
          .map((at) => `${at} ${at + bytes.length} ${which}`),
      )
      const found: string[] = []
      finder.each(text, (match) => found.push(`${match.start} ${match.end} ${match.text}`))
      assert.deepEqual(found.sort(), expected.sort())
      const longest = [...text.keys()].find((at) =>
        patterns.some(
          ({ bytes }) =>
            bytes.length > text.length - at && bytes.subarray(0, text.length - at).equals(text.subarray(at)),
        ),
      )
      assert.equal(finder.prefixAtEnd(text), longest === undefined ? 0 : text.length - longest)
    }
  })

  test('the scanner returns which text was found', () => {
    const scanner = new Scanner(['agentpodfirst', 'agentpodsecond'])
    assert.equal(scanner.found, undefined)
    scanner.push(Buffer.from('x agentpod%73econd y'))
    assert.equal(scanner.found, 1)
  })
})

describe('a slot', () => {
  const secret = { placeholder: 'agentpodabc', value: 'real' }
  const rows: readonly (readonly [string, Parameters<typeof fillSlot>[1]['scheme'], string | undefined])[] = [
    ['agentpodabc', { kind: 'bare' }, 'real'],
    ['agentpodabc ', { kind: 'bare' }, undefined],
    ['xagentpodabc', { kind: 'bare' }, undefined],
    ['Bearer agentpodabc', { kind: 'prefix', prefix: 'Bearer' }, 'Bearer real'],
    ['bearer agentpodabc', { kind: 'prefix', prefix: 'Bearer' }, 'Bearer real'],
    ['Bearer agentpodabc, Basic x', { kind: 'prefix', prefix: 'Bearer' }, undefined],
    ['Bearer agentpodabc extra', { kind: 'prefix', prefix: 'Bearer' }, undefined],
    ['Token agentpodabc', { kind: 'prefix', prefix: 'Bearer' }, undefined],
    [
      `Basic ${Buffer.from('me:agentpodabc').toString('base64')}`,
      { kind: 'basic', user: '' },
      `Basic ${Buffer.from('me:real').toString('base64')}`,
    ],
    [
      `Basic ${Buffer.from('attacker:agentpodabc').toString('base64')}`,
      { kind: 'basic', user: 'bot' },
      `Basic ${Buffer.from('bot:real').toString('base64')}`,
    ],
    [`Basic ${Buffer.from('agentpodabc:x').toString('base64')}`, { kind: 'basic', user: 'bot' }, undefined],
    ['Basic !!!', { kind: 'basic', user: 'bot' }, undefined],
  ]
  for (const [header, scheme, expected] of rows) {
    test(`a ${scheme.kind} slot with ${JSON.stringify(header)} is ${expected === undefined ? 'not filled' : 'filled'}`, () => {
      assert.equal(fillSlot(header, { ...secret, scheme }), expected)
    })
  }
})

describe('the sealed box', () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-box-'))
  test.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'secrets.key')

  test('NET-14 the box opens what it sealed, also in a later process, and only for the same purpose', () => {
    const sealed = openSealedBox(file, systemRandom).seal('value', 'secret local/x 1')
    assert.equal(openSealedBox(file, systemRandom).open(sealed, 'secret local/x 1'), 'value')
    assert.throws(
      () => openSealedBox(file, systemRandom).open(sealed, 'secret local/y 1'),
      /cannot be decrypted/,
    )
    assert.equal(statSync(file).mode & 0o777, 0o600)
  })

  test('NET-14 the box refuses a value that was changed in any byte', () => {
    const box = openSealedBox(file, systemRandom)
    const sealed = Buffer.from(box.seal('value', 'p'), 'base64')
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] ?? 0) ^ 1
      assert.throws(
        () => box.open(changed.toString('base64'), 'p'),
        (error) => isAgentPodError(error, 'data_loss'),
      )
    }
  })

  test('NET-14 the box makes no new key where values are sealed with one that is gone', () => {
    const gone = join(directory, 'gone')
    assert.throws(
      () => openSealedBox(gone, systemRandom, () => true),
      (error) => isAgentPodError(error, 'data_loss') && error.reason === 'secret.key_missing',
    )
    assert.ok(!existsSync(gone))
  })

  test('a file that is not a key is never overwritten', () => {
    const other = join(directory, 'other')
    writeFileSync(other, 'short')
    assert.throws(() => openSealedBox(other, systemRandom), /is not an AgentPod key/)
    assert.equal(readFileSync(other, 'utf8'), 'short')
  })
})
