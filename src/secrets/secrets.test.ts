import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { systemRandom } from '../util/random.ts'
import { openBox } from './box.ts'
import { Masker } from './masker.ts'
import { needlesOf } from './needles.ts'
import { newPlaceholder } from './placeholder.ts'
import { mentions, Scanner } from './scanner.ts'
import { fillSlot } from './slot.ts'

const VALUE = 'sk-live/äöü+"quoted" & <tag>=0123456789'
const bytes = Buffer.from(VALUE)

const FORMS: readonly (readonly [string, string | Buffer])[] = [
  ['as it is', VALUE],
  ['in a URL', encodeURIComponent(VALUE)],
  ['in a URL, lower-case codes', encodeURIComponent(VALUE).replaceAll(/%../g, (code) => code.toLowerCase())],
  ['in a form', new URLSearchParams({ k: VALUE }).toString()],
  ['in JSON', JSON.stringify({ error: VALUE })],
  ['in JSON of PHP', JSON.stringify(VALUE).replaceAll('/', '\\/')],
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
    test(`covers the value ${name}, wherever a chunk ends`, () => {
      const whole = Buffer.concat([Buffer.from('before '), Buffer.from(form), Buffer.from(' after')])
      const once = new Masker([VALUE])
      const expected = Buffer.concat([once.push(whole), once.end()])
      assert.ok(once.hits > 0)
      assert.equal(expected.length, whole.length)
      for (const needle of needlesOf(VALUE)) assert.ok(!expected.includes(needle))
      for (let at = 1; at < whole.length; at++) {
        const masker = new Masker([VALUE])
        const parts = [masker.push(whole.subarray(0, at)), masker.push(whole.subarray(at)), masker.end()]
        assert.deepEqual(Buffer.concat(parts), expected, `cut at ${at}`)
      }
    })
  }

  test('passes a stream on at once where nothing in it could begin a value', () => {
    const masker = new Masker(['supersecretvalue'])
    assert.equal(masker.push(Buffer.from('data: 1\n\n')).toString(), 'data: 1\n\n')
    assert.equal(masker.push(Buffer.from('data: sup')).toString(), 'data: ')
    assert.equal(masker.push(Buffer.from('per\n\n')).toString(), 'supper\n\n')
    assert.equal(masker.end().length, 0)
  })

  test('leaves the buffer that it was given alone', () => {
    const given = Buffer.from('supersecretvalue')
    new Masker(['supersecretvalue']).push(given)
    assert.equal(given.toString(), 'supersecretvalue')
  })

  test('byte by byte gives the same as at once', () => {
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
  ]
  for (const form of forms) {
    test(`finds the placeholder as ${form.slice(0, 16)}…, wherever a chunk ends`, () => {
      const whole = Buffer.from(`a=b&key=${form}&c=d`)
      for (let at = 0; at < whole.length; at++) {
        const scanner = new Scanner([placeholder])
        const first = scanner.push(whole.subarray(0, at))
        assert.ok(scanner.push(whole.subarray(at)) || first, `cut at ${at}`)
      }
    })
  }

  test('does not find it in other text', () => {
    assert.equal(
      mentions(`agentpod is a project ${'%41'.repeat(100)} ${placeholder.slice(0, -1)}`, [placeholder]),
      false,
    )
    assert.equal(mentions('anything', []), false)
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
    test(`${scheme.kind}: ${JSON.stringify(header)} ${expected === undefined ? 'is not it' : 'is filled'}`, () => {
      assert.equal(fillSlot(header, { ...secret, scheme }), expected)
    })
  }
})

describe('the box', () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-box-'))
  test.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'secrets.key')

  test('opens what it sealed, in a later life too, and only for the same purpose', () => {
    const sealed = openBox(file, systemRandom).seal('value', 'secret local/x 1')
    assert.equal(openBox(file, systemRandom).open(sealed, 'secret local/x 1'), 'value')
    assert.throws(() => openBox(file, systemRandom).open(sealed, 'secret local/y 1'), /cannot be opened/)
    assert.equal(statSync(file).mode & 0o777, 0o600)
  })

  test('refuses what was changed in any byte', () => {
    const box = openBox(file, systemRandom)
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

  test('never writes over a file that is not its key', () => {
    const other = join(directory, 'other')
    writeFileSync(other, 'short')
    assert.throws(() => openBox(other, systemRandom), /is not a key/)
    assert.equal(readFileSync(other, 'utf8'), 'short')
  })
})
