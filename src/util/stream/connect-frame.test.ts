import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SeededRandom } from '../../testing/seeded-random.ts'
import { encodeFrame, type Frame, FrameError, FrameReader, LONGEST_FRAME_BYTES } from './connect-frame.ts'

const FRAMES: readonly Frame[] = [
  { last: false, message: { event: { start: { pid: 7 } } } },
  { last: false, message: {} },
  { last: false, message: { text: 'Grüße 😀', data: 'x'.repeat(300) } },
  { last: false, message: [null, 0, 'a'] },
  { last: true, message: { error: { code: 'not_found' } } },
]
const BYTES = Buffer.concat(FRAMES.map(({ message, last }) => encodeFrame(message, last)))

describe('frames come out whole', () => {
  test('frames are read when cut in two at every position', () => {
    for (let cut = 0; cut <= BYTES.length; cut++) {
      const reader = new FrameReader()
      const frames = [...reader.push(BYTES.subarray(0, cut)), ...reader.push(BYTES.subarray(cut))]
      assert.deepEqual(frames, FRAMES, `cut at ${cut}`)
      assert.ok(reader.isEmpty)
    }
  })

  test('frames are read when cut in three at every pair of positions', () => {
    const few = BYTES.subarray(0, 60)
    const whole = new FrameReader().push(few)
    for (let a = 0; a <= few.length; a++) {
      for (let b = a; b <= few.length; b++) {
        const reader = new FrameReader()
        const parts = [few.subarray(0, a), few.subarray(a, b), few.subarray(b)]
        assert.deepEqual(
          parts.flatMap((part) => reader.push(part)),
          whole,
          `cut at ${a} and ${b}`,
        )
      }
    }
  })

  test('frames are read byte by byte', () => {
    const reader = new FrameReader()
    const frames = [...BYTES].flatMap((byte) => reader.push(Buffer.from([byte])))
    assert.deepEqual(frames, FRAMES)
  })

  test('frames are read in pieces of any size, including empty ones', () => {
    const random = new SeededRandom(42)
    for (let round = 0; round < 300; round++) {
      const reader = new FrameReader()
      const frames: Frame[] = []
      for (let at = 0; at < BYTES.length; ) {
        const size = random.below(50)
        frames.push(...reader.push(BYTES.subarray(at, at + size)))
        at += size
      }
      assert.deepEqual(frames, FRAMES)
    }
  })
})

test('a frame reader knows whether it is at the end of a frame', () => {
  const reader = new FrameReader()
  assert.ok(reader.isEmpty)
  reader.push(BYTES.subarray(0, BYTES.length - 1))
  assert.equal(reader.isEmpty, false)
  reader.push(BYTES.subarray(BYTES.length - 1))
  assert.ok(reader.isEmpty)
})

test('the buffer of a frame may be overwritten after it was read', () => {
  const chunk = Buffer.from(encodeFrame({ text: 'kept' }))
  const [frame] = new FrameReader().push(chunk)
  chunk.fill(0)
  assert.deepEqual(frame?.message, { text: 'kept' })
})

function header(flags: number, length: number): Buffer {
  const bytes = Buffer.alloc(5)
  bytes[0] = flags
  bytes.writeUInt32BE(length, 1)
  return bytes
}

const WRONG: readonly { name: string; bytes: Buffer; says: RegExp }[] = [
  { name: 'a compressed frame', bytes: Buffer.concat([header(1, 2), Buffer.from('{}')]), says: /compressed/ },
  { name: 'an unknown flag', bytes: Buffer.concat([header(4, 2), Buffer.from('{}')]), says: /flags 4/ },
  { name: 'a frame that is not JSON', bytes: Buffer.concat([header(0, 2), Buffer.from('{]')]), says: /JSON/ },
  { name: 'an empty frame', bytes: header(0, 0), says: /JSON/ },
  { name: 'a length past the bound', bytes: header(0, LONGEST_FRAME_BYTES + 1), says: /too long/ },
  { name: 'the longest length there is', bytes: header(0, 0xffffffff), says: /too long/ },
]
for (const { name, bytes, says } of WRONG) {
  test(`the malformed frame (${name}) is refused as soon as it is seen`, () => {
    assert.throws(
      () => new FrameReader().push(bytes),
      (error) => error instanceof FrameError && says.test(error.message),
    )
  })
}

test('a large frame in many small chunks costs no more than its size', () => {
  const message = { data: 'y'.repeat(4 * 1024 * 1024) }
  const bytes = encodeFrame(message)
  const reader = new FrameReader()
  const frames: Frame[] = []
  const started = performance.now()
  for (let at = 0; at < bytes.length; at += 1024) frames.push(...reader.push(bytes.subarray(at, at + 1024)))
  assert.deepEqual(frames, [{ last: false, message }])
  assert.ok(performance.now() - started < 2000)
})

test('a frame header may arrive in small pieces', () => {
  const reader = new FrameReader()
  const bytes = encodeFrame({ a: 1 })
  assert.deepEqual(reader.push(bytes.subarray(0, 3)), [])
  assert.deepEqual(reader.push(Buffer.alloc(0)), [])
  assert.deepEqual(reader.push(bytes.subarray(3)), [{ last: false, message: { a: 1 } }])
})
