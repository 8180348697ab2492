import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  hasHidden,
  replaceControls,
  replaceHidden,
  replaceHiddenInLines,
  showHidden,
  showUnlikelyHidden,
  toPrintableAscii,
  toVisibleAscii,
} from './hidden-characters.ts'

test('showHidden shows characters that a terminal obeys as escapes', () => {
  assert.equal(showHidden('a\u001b]52;c;x\u0007\n'), 'a\\u001b]52;c;x\\u0007\\u000a')
  assert.equal(
    showHidden('\u009b31m \u202etxt.exe \u2028 \ufeff'),
    '\\u009b31m \\u202etxt.exe \\u2028 \\ufeff',
  )
  assert.equal(showHidden('\u{e0041}'), '\\udb40\\udc41')
  assert.equal(showHidden('grüße 👨‍👩‍👧 می‌خواهم'), 'grüße 👨‍👩‍👧 می‌خواهم')
})

test('showUnlikelyHidden does not change the value of JSON', () => {
  const value = { path: 'a\u009b\u202e\u{e0041}\ud800' }
  const text = showUnlikelyHidden(JSON.stringify(value))
  assert.match(text, /^[ -~]*$/)
  assert.deepEqual(JSON.parse(text), value)
})

test('replaceHidden makes one line of text', () => {
  assert.equal(replaceHidden('a\nb\u2028c\u009b'), 'a?b?c?')
  assert.equal(replaceHidden('a\tb', ' '), 'a b')
})

test('replaceHiddenInLines keeps line ends and tabs', () => {
  assert.equal(replaceHiddenInLines('a\n\tb\u001b\u2028c', ''), 'a\n\tbc')
})

test('replaceControls keeps the separators U+2028 and U+2029', () => {
  assert.equal(replaceControls('a\u0007b\u2028c', '_'), 'a_b\u2028c')
})

test('hasHidden finds controls, format characters and separators, and no letters', () => {
  for (const text of ['\u001b', 'a\u202e', '\u2029'])
    assert.equal(hasHidden(text), true, JSON.stringify(text))
  assert.equal(hasHidden('grüße 你好'), false)
})

test('toPrintableAscii keeps spaces and toVisibleAscii does not', () => {
  assert.equal(toPrintableAscii('a b\u001bü'), 'a b??')
  assert.equal(toVisibleAscii('a b\u001bü'), 'a?b??')
})
