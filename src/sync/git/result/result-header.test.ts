import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SeededRandom } from '../../../testing/seeded-random.ts'
import { LONGEST_HEADER_BYTES, parseResultHeader } from './result-header.ts'

const TREE = 'a'.repeat(40)

function header(
  lists: { commits?: string; large?: string; left?: string; submodules?: string } = {},
  tree = TREE,
): Buffer {
  const parts = [lists.commits, lists.large, lists.left, lists.submodules].map((text) =>
    Buffer.from(text ?? ''),
  )
  const lengths = ['commits', 'large', 'left', 'submodules'].map((name, i) => `${name} ${parts[i]?.length}\n`)
  return Buffer.concat([Buffer.from(`agentpod-result 1\ntree ${tree}\n${lengths.join('')}\n`), ...parts])
}

describe('the header of a result', () => {
  test('a result header lists its contents and where the pack begins', () => {
    const bytes = header({
      commits: 'second\0first\0',
      large: ['123 a b\n', '456 c', ''].join('\0'),
      left: 'x\ry\0sub\0c\0',
      submodules: 'sub\0',
    })
    const found = parseResultHeader(Buffer.concat([bytes, Buffer.from('PACK and more')]))
    assert.deepEqual(found, {
      packAt: bytes.length,
      header: {
        tree: TREE,
        commits: ['second', 'first'],
        tooLarge: [
          { path: 'a b?', sizeBytes: 123 },
          { path: 'c', sizeBytes: 456 },
        ],
        leftOut: ['x?y'],
        submodules: ['sub'],
      },
    })
  })

  test('a result header is parsed only when it is complete', () => {
    const bytes = header({ commits: 'one\0', submodules: 'a/b\0' })
    for (let end = 0; end < bytes.length; end++)
      assert.equal(parseResultHeader(bytes.subarray(0, end)), undefined)
    assert.equal(parseResultHeader(bytes)?.packAt, bytes.length)
  })

  test('a result header drops truncated and malformed records', () => {
    const found = parseResultHeader(
      header({ commits: 'a\0b\0cut', large: ['x y', '-1 a', '9 ', '5 ok', ''].join('\0') }),
    )?.header
    assert.deepEqual(found?.commits, ['a', 'b'])
    assert.deepEqual(found?.tooLarge, [{ path: 'ok', sizeBytes: 5 }])
  })

  test('a result header is limited in size', () => {
    const bytes = header({
      commits: 's\0'.repeat(8000),
      large: '1 p\0'.repeat(16_000),
      left: 'l\0'.repeat(32_000),
      submodules: `${'m'.repeat(60_000)}\0`,
    })
    const found = parseResultHeader(bytes)
    assert.ok(found && found.packAt < LONGEST_HEADER_BYTES)
    const { commits, tooLarge, leftOut, submodules } = found.header
    assert.deepEqual([commits.length, tooLarge.length, leftOut.length], [50, 1000, 1000])
    assert.equal(submodules[0]?.length, 4096)
  })

  const GOOD = header().toString('latin1')
  for (const [name, text] of [
    ['nothing', ''],
    ['another beginning', `x${GOOD}`],
    ['another version', GOOD.replace('result 1', 'result 2')],
    ['a tree that is none', GOOD.replace(TREE, 'A'.repeat(40))],
    ['a tree that is an option', GOOD.replace(TREE, '--upload-pack=x')],
    ['a longer tree', GOOD.replace(TREE, 'a'.repeat(64))],
    ['a negative length', GOOD.replace('large 0', 'large -1')],
    ['a length in other digits', GOOD.replace('large 0', 'large 0x10')],
    ['a length that is too large', GOOD.replace('large 0', 'large 999999')],
    ['a length beyond any number', GOOD.replace('large 0', `large ${'9'.repeat(400)}`)],
    ['lines in another order', GOOD.replace(/commits 0\nlarge 0/, 'large 0\ncommits 0')],
    ['line ends of another system', GOOD.replaceAll('\n', '\r\n')],
    ['the old form', `{"tree":"${TREE}"}\n`],
  ])
    test(`RUN-15 a header of a result is refused: ${name}`, () =>
      assert.equal(parseResultHeader(Buffer.from(text ?? '', 'latin1')), undefined))

  test('RUN-15 reading a header of a result never throws, whatever the bytes (seeded)', () => {
    const random = new SeededRandom(7)
    const whole = header({ commits: 'one\0two\0', large: '5 x\0', left: 'y\0', submodules: 'z\0' })
    for (let i = 0; i < 3000; i++) {
      const bytes = Buffer.from(whole)
      for (let flips = 0; flips <= random.below(4); flips++)
        bytes[random.below(bytes.length)] = random.below(256)
      const found = parseResultHeader(bytes.subarray(0, random.below(bytes.length + 1)))
      if (found) assert.match(found.header.tree, /^[0-9a-f]{40}$/)
    }
  })
})
