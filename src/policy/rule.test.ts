import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseHostName } from './host-name.ts'
import { describeRule, hashRules, matchesHost, parseDenial, parseRule } from './rule.ts'

describe('a rule', () => {
  test('a rule is parsed from a line', () => {
    assert.deepEqual(parseRule('Example.COM.', 'live'), {
      host: 'example.com',
      ports: [80, 443],
      isPrivate: false,
      source: 'live',
    })
    assert.deepEqual(parseRule('*.example.com:8443,443,443', 'user').ports, [443, 8443])
    assert.deepEqual(parseRule('example.com/api/**', 'user').paths, ['/api/**'])
    assert.deepEqual(parseRule('example.com:8443/api/%61', 'user').paths, ['/api/a'])
    assert.equal(parseRule('*.bücher.example', 'user').host, '*.xn--bcher-kva.example')
  })

  test('a rule is parsed from an object into normal form', () => {
    const budget = { bytes: 1000, requestsPerMinute: 5 }
    const input = {
      host: 'mirror',
      ports: [8081],
      methods: ['POST', 'GET', 'GET'],
      paths: ['/b', '/a'],
      private: true,
      budget,
    }
    const rule = parseRule(input, 'preset js')
    assert.deepEqual(rule, {
      host: 'mirror',
      ports: [8081],
      methods: ['GET', 'POST'],
      paths: ['/a', '/b'],
      isPrivate: true,
      budget,
      source: 'preset js',
    })
    assert.equal(
      describeRule(rule),
      'mirror on port 8081; methods GET, POST; paths /a, /b; private addresses too; at most 1000 bytes; at most 5 requests a minute',
    )
  })

  const refusals: readonly (readonly [input: unknown, reason: string, hint?: RegExp])[] = [
    ...[
      '',
      '*',
      '*.',
      '*.com',
      '*.com.',
      '*.*.com',
      'a.*.com',
      'a*.com',
      '**.example.com',
      '127.0.0.1',
      '2130706433',
    ].map((text) => [text, 'rule.host'] as const),
    ['.example.com', 'rule.host', /\*\.example\.com/],
    ['exa mple.com', 'rule.host'],
    ['user@example.com', 'rule.host'],
    ['https://example.com', 'rule.url', /up to/],
    ['[::1]:80', 'rule.host'],
    ...[
      'example.com:',
      'example.com:0',
      'example.com:65536',
      'example.com:443x',
      'example.com:-1',
      'example.com:1,',
    ].map((text) => [text, 'rule.port'] as const),
    ['example.com:1:2', 'rule.host'],
    ['::1', 'rule.host', /name that the address has/],
    ['example.com/../x', 'rule.path'],
    ['localhost', 'rule.never'],
    [{ host: 'metadata.google.internal', private: true }, 'rule.never'],
    [{ host: 'a.localhost', private: true }, 'rule.never'],
    ['mirror', 'rule.private', /private = true/],
    ['db.internal', 'rule.private'],
    [{ host: 'example.com', port: 443 }, 'rule.unknown_key', /did you mean ports/],
    [{ host: 'example.com', budget: { byte: 4 } }, 'rule.unknown_key', /did you mean bytes/],
    [{ host: 'example.com', private: 'yes' }, 'rule.malformed'],
    [{ host: 'example.com', ports: [] }, 'rule.malformed'],
    [{ host: 'example.com', ports: [443.5] }, 'rule.malformed'],
    [{ host: 'example.com', ports: 'any' }, 'rule.malformed'],
    [{ host: 'example.com', budget: { bytes: -1 } }, 'rule.malformed'],
    [{ host: 'example.com', methods: ['get'] }, 'rule.method', /write GET/],
    [{ host: 'example.com', methods: ['TRACE'] }, 'rule.method'],
    [{ host: 'example.com', methods: ['GE T'] }, 'rule.method'],
    [{}, 'rule.malformed'],
    [null, 'rule.malformed'],
    [['example.com'], 'rule.malformed'],
  ]
  for (const [input, reason, hint] of refusals) {
    test(`the rule ${JSON.stringify(input)} is refused as ${reason}`, () =>
      assert.throws(() => parseRule(input, 'user'), {
        code: 'invalid_argument',
        reason,
        ...(hint && { hint }),
      }))
  }

  test('a rule matches whole labels only', () => {
    const star = parseRule('*.example.com', 'user').host
    const exact = parseRule('example.com', 'user').host
    for (const name of ['a.example.com', 'a.b.example.com', 'A.EXAMPLE.com.'])
      assert.ok(matchesHost(star, parseHostName(name)), name)
    for (const name of [
      'example.com',
      'xexample.com',
      'evil-example.com',
      'example.com.evil.test',
      'a.example.comx',
    ])
      assert.ok(!matchesHost(star, parseHostName(name)), name)
    for (const name of ['example.com', 'EXAMPLE.com', 'example.com.'])
      assert.ok(matchesHost(exact, parseHostName(name)), name)
    for (const name of ['a.example.com', 'xexample.com', 'example.com.evil.test'])
      assert.ok(!matchesHost(exact, parseHostName(name)), name)
  })

  test('a rule has a hash of its meaning', () => {
    const [a, b] = [parseRule('a.example:443,80', 'user'), parseRule('b.example/x', 'live')]
    assert.equal(hashRules([a, b]), hashRules([b, parseRule('A.example', 'project'), a]))
    assert.notEqual(hashRules([a]), hashRules([parseRule('a.example:443', 'user')]))
    assert.notEqual(hashRules([a]), hashRules([a, b]))
    // It is remembered on disk: a new value asks every user again.
    assert.equal(hashRules([a]), 'dba25b3230fb20ccd2bfccb7292e8f6781a5fc9f09eda5712cf383db4f4b4737')
  })
})

test('a denial without ports applies to all ports, and has no budget and no private', () => {
  assert.equal(parseDenial('example.com', 'user').ports, 'any')
  assert.deepEqual(parseDenial('example.com:25', 'user').ports, [25])
  assert.throws(() => parseDenial({ host: 'example.com', private: true }, 'user'), { reason: 'rule.denial' })
  assert.throws(() => parseDenial('*.com', 'user'), { reason: 'rule.host' })
})
