import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { showHidden } from '../../util/hidden-characters.ts'
import { table } from './terminal.ts'

describe('text of a sandbox on a terminal', () => {
  const HOSTILE: readonly [name: string, text: string, shown: string][] = [
    ['a colour', '\u001b[31mred', '\\u001b[31mred'],
    ['a title', '\u001b]0;owned\u0007', '\\u001b]0;owned\\u0007'],
    ['a clipboard', '\u001b]52;c;ZXZpbA==\u001b\\', '\\u001b]52;c;ZXZpbA==\\u001b\\'],
    ['an eight-bit escape', '\u009b2J', '\\u009b2J'],
    ['a return to the start of the line', 'safe\rhidden', 'safe\\u000dhidden'],
    ['a line break', 'a\nb', 'a\\u000ab'],
    ['a backspace', 'a\bb', 'a\\u0008b'],
    ['a delete', 'a\u007fb', 'a\\u007fb'],
    ['text turned around', 'a\u202eb\u2066c', 'a\\u202eb\\u2066c'],
    ['a NUL', '\0', '\\u0000'],
  ]
  for (const [name, text, shown] of HOSTILE) {
    test(`${name} is shown and not obeyed`, () => assert.equal(showHidden(text), shown))
  }

  test('plain text of any alphabet stays as it is', () => {
    const text = 'Grüße, 日本語, 😀 – "quoted" \\n'
    assert.equal(showHidden(text), text)
  })
})

test('columns line up and lines have no trailing space', () => {
  assert.deepEqual(
    table([
      ['a', 'long', 'x'],
      ['bbb', 'c', ''],
    ]),
    ['a    long  x', 'bbb  c'],
  )
  assert.deepEqual(table([]), [])
})
