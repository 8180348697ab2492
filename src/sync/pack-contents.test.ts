import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { packContents } from './tar.ts'

let scratch: string
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'agentpod-pack-'))
})
afterEach(() => rmSync(scratch, { recursive: true }))

const file = (
  path: string,
  text = path,
  isExecutable = false,
): { path: string; data: Buffer; isExecutable: boolean } => ({
  path,
  data: Buffer.from(text),
  isExecutable,
})

describe('packContents', () => {
  const LONG = `${'d'.repeat(90)}/${'e'.repeat(90)}/${'f'.repeat(90)}`
  const all = [
    file('b'),
    file('a/x', 'y'.repeat(1000), true),
    file('empty', ''),
    file(LONG),
    file('ü ß'),
    file('block', 'z'.repeat(512)),
  ]

  test('packed contents are readable by any tar, with fixed times and modes', () => {
    execFileSync('tar', ['-xf', '-', '-C', scratch], { input: packContents(all) })
    for (const { path, data, isExecutable } of all) {
      assert.deepEqual(readFileSync(join(scratch, path)), data)
      const { mode, mtimeMs } = statSync(join(scratch, path))
      assert.equal((mode & 0o100) !== 0, isExecutable)
      assert.equal(mtimeMs, 1_000_000_000_000)
    }
  })

  test('packed contents are the same bytes in any order of input', () => {
    assert.deepEqual(packContents(all), packContents(all.toReversed()))
  })

  for (const [what, other] of [
    ['a name', file('c')],
    ['a text', file('b', 'other')],
    ['a mode', file('b', 'b', true)],
  ] as const)
    test(`packed contents differ with another ${what}`, () =>
      assert.notDeepEqual(packContents([file('b')]), packContents([other])))

  test('packing nothing gives a valid archive', () => {
    execFileSync('tar', ['-tf', '-'], { input: packContents([]) })
  })
})
