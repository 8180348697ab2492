import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../testing/seeded-random.ts'
import { coversPattern, matchPath, normalPath, parsePathPattern } from './path-pattern.ts'

function isMatch(pattern: string, target: string, effect: 'allow' | 'deny' = 'allow'): boolean {
  const path = normalPath(target)
  assert.ok(path !== undefined, target)
  return matchPath([parsePathPattern(pattern)], path, effect) !== undefined
}

test('a normal path has no query and no unnecessary escapes', () => {
  assert.equal(normalPath('/a/b?x=/../y'), '/a/b')
  assert.equal(normalPath('/%61%7e/%40x'), '/a~/@x')
  assert.equal(normalPath('/a%2fb%c3%bc'), '/a%2Fb%C3%BC')
  assert.equal(normalPath('/a*/**'), '/a%2A/%2A%2A')
})

test('an ambiguous path has no normal form', () => {
  const dots = [
    '/..',
    '/.',
    '/a/../b',
    '/a/%2e%2e/b',
    '/a/.%2E',
    '/a/..%2fb',
    '/a/..;/b',
    '/a%2f..%2fb',
    '/./a',
  ]
  const signs = [
    '/a\\b',
    '/a%5cb',
    '/a%00',
    '/a%0ab',
    '/a%7f',
    '/a b',
    '/a\0',
    '/ä',
    '/a#b',
    '/a%',
    '/a%2',
    '/a%zz',
  ]
  const others = [
    '',
    'a',
    '*',
    'http://example.com/',
    '/%252e',
    '/%25%32%65',
    '/%c0%af',
    `/${'a'.repeat(5000)}`,
  ]
  for (const target of [...dots, ...signs, ...others]) assert.equal(normalPath(target), undefined, target)
})

test('* stays in its segment and ** crosses segments', () => {
  const yes = [
    ['/a', '/a'],
    ['/a/*', '/a/b'],
    ['/a/*/c', '/a/b/c'],
    ['/a*z', '/abcz'],
    ['/a*z', '/az'],
    ['/*b*d*', '/abcd'],
    ['/**', '/'],
    ['/**', '/a/b/c'],
    ['/a/**', '/a'],
    ['/a/**', '/a/b/c'],
    ['/a/**/z', '/a/z'],
    ['/a/**/z', '/a/b/c/z'],
    ['/**/x/**/y', '/1/x/2/x/3/y'],
    ['/@s%2Fn', '/@s%2fn'],
    ['/@s%2f*', '/@s%2Fn'],
    ['/a/', '/a/'],
  ] as const // prettier-ignore
  const no = [
    ['/a', '/b'],
    ['/a', '/A'],
    ['/a', '/a/'],
    ['/a', '/ab'],
    ['/a/*', '/a/b/c'],
    ['/a/*', '/ab'],
    ['/a*z', '/a/z'],
    ['/aba*aba', '/aba'],
    ['/a/**/z', '/a/b'],
    ['/a/**', '/ab'],
    ['/a/**', '/'],
    ['/*', '/a%2Fb'],
    ['/a/*', '/a//b'],
  ] as const // prettier-ignore
  for (const [pattern, path] of yes) assert.ok(isMatch(pattern, path), `${pattern} ${path}`)
  for (const [pattern, path] of no) assert.ok(!isMatch(pattern, path), `${pattern} ${path}`)
})

test('a denial applies to any reading of a path, a grant needs all readings', () => {
  for (const path of [
    '/admin/x',
    '//admin/x',
    '/admin%2fx',
    '/admin;a=1/x',
    '/%61dmin/x',
    '/admin//x',
    '/admin/x/',
    '/admin',
  ])
    assert.ok(isMatch('/admin/**', path, 'deny'), path)
  for (const path of ['/admin/', '/admin;x', '//admin']) {
    assert.ok(isMatch('/admin', path, 'deny'), path)
    assert.ok(!isMatch('/admin', path, 'allow'), path)
  }
  assert.ok(isMatch('/a/*', '/a/**', 'deny'))
  for (const pattern of ['/admin/', '/admin;x', '//admin'])
    assert.ok(isMatch(pattern, '/admin', 'deny'), pattern)
  assert.ok(!isMatch('/admin/**', '/administrator', 'deny'))
})

test('an invalid pattern is refused with the reason', () => {
  for (const text of [
    '',
    'a',
    '/a/**b',
    '/a**',
    '/***',
    '/a?b',
    '/a b',
    '/../a',
    '/a/%2e%2e',
    '/a%2',
    '/a%2ab',
    '/ä',
    `/${'a'.repeat(300)}`,
  ])
    assert.throws(() => parsePathPattern(text), { reason: 'rule.path' }, text)
})

test('a pattern that covers another matches everything it matches', () => {
  for (const [outer, inner] of [
    ['/**', '/a/*'],
    ['/a/**', '/a/*/c'],
    ['/a*', '/ab*c'],
    ['/a/**', '/a/**/b'],
    ['/a', '/a'],
  ] as const)
    assert.ok(coversPattern(outer, inner), `${outer} ${inner}`)
  for (const [outer, inner] of [
    ['/a/*', '/a/**'],
    ['/a', '/a*'],
    ['/a/*', '/b/*'],
    ['/*', '/a%2Fb'],
    ['/a/*/c', '/a/**/c'],
  ] as const)
    assert.ok(!coversPattern(outer, inner), `${outer} ${inner}`)

  const random = new SeededRandom(11)
  const pick = (some: readonly string[]) => some[random.below(some.length)] ?? ''
  const fill = (pattern: string, whole: readonly string[], part: readonly string[]) =>
    pattern.replace(/\*+/g, (star) => pick(star === '**' ? whole : part)).replaceAll('***', '**')
  let pairs = 0
  for (let run = 0; run < 30_000; run++) {
    const outer = `/${Array.from({ length: 1 + random.below(3) }, () => pick(['a', 'a*', '*b', '*', '**', 'a;*', 'a%2F*', ''])).join('/')}`
    const inner = fill(outer, ['a', 'a/b', '**', '*', 'a/**/b'], ['', 'a', '*', 'a*b', 'a;b', 'a%2Fb'])
    const target = normalPath(fill(inner, ['a', 'b//c', 'a/b/c', 'a;x/y'], ['', 'b', 'ab', 'a%2Fb', ';x']))
    if (/\*\*[^/]|[^/]\*\*/.test(inner) || target === undefined) continue
    if (!coversPattern(outer, inner) || matchPath([inner], target, 'allow') === undefined) continue
    pairs++
    assert.ok(
      matchPath([outer], target, 'allow') !== undefined,
      `${outer} covers ${inner}, which matches ${target}`,
    )
  }
  assert.ok(pairs > 500, String(pairs))
})
