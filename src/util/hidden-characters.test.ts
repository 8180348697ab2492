import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replaceHidden, showHidden, showUnlikelyHidden } from './hidden-characters.ts'

test('what a terminal obeys is shown as a number', () => {
  assert.equal(showHidden('a\u001b]52;c;x\u0007\n'), 'a\\u001b]52;c;x\\u0007\\u000a')
  assert.equal(
    showHidden('\u009b31m \u202etxt.exe \u2028 \ufeff'),
    '\\u009b31m \\u202etxt.exe \\u2028 \\ufeff',
  )
  assert.equal(showHidden('\u{e0041}'), '\\udb40\\udc41')
  assert.equal(showHidden('grüße 👨‍👩‍👧 می‌خواهم'), 'grüße 👨‍👩‍👧 می‌خواهم')
})

test('JSON stays the same value', () => {
  const value = { path: 'a\u009b\u202e\u{e0041}\ud800' }
  const text = showUnlikelyHidden(JSON.stringify(value))
  assert.match(text, /^[ -~]*$/)
  assert.deepEqual(JSON.parse(text), value)
})

test('a line is one line', () => {
  assert.equal(replaceHidden('a\nb\u2028c\u009b'), 'a?b?c?')
  assert.equal(replaceHidden('a\tb', ' '), 'a b')
})
