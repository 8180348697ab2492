import assert from 'node:assert/strict'
import type { Transform } from 'node:stream'
import { describe, test } from 'node:test'
import { TEST_PLACEHOLDER, VALUE } from '../testing/tls-fixture.ts'
import { FrameGuard, FrameMask } from './frames.ts'
import { readFrameHead, serverFrame } from './websocket-frame.ts'

const MIB = 1024 * 1024

interface Frame {
  readonly opcode: number
  readonly isLast: boolean
  readonly payload: Buffer
}

function framesOf(bytes: Buffer): Frame[] {
  const frames: Frame[] = []
  for (let rest = bytes; rest.length > 0; ) {
    const head = readFrameHead(rest)
    assert.ok(head)
    const { opcode, isLast, size, length } = head
    frames.push({ opcode, isLast, payload: rest.subarray(size, size + length) })
    rest = rest.subarray(size + length)
  }
  return frames
}

/** What comes out for chunks that are written one by one, and the error that it ends with. */
async function through(
  stream: Transform,
  chunks: Iterable<Buffer>,
): Promise<{ readonly out: Buffer; readonly error?: Error | undefined }> {
  const parts: Buffer[] = []
  let error: Error | undefined
  stream.on('data', (chunk: Buffer) => parts.push(chunk))
  stream.on('error', (one) => {
    error = one
  })
  const closed = new Promise((resolve) => stream.once('close', resolve))
  for (const chunk of chunks) {
    if (stream.destroyed) break
    if (!stream.write(chunk))
      await new Promise((resolve) => stream.once('drain', resolve).once('close', resolve))
  }
  stream.end()
  await closed
  return { out: Buffer.concat(parts), error }
}

function* cut(bytes: Buffer, size: number): Iterable<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

describe('frames from a server', () => {
  test('a value across the pieces of a server message is masked', async () => {
    for (const before of [MIB - 30, MIB - 10, MIB - 1, MIB]) {
      const body = Buffer.concat([Buffer.alloc(before, '.'), Buffer.from(VALUE), Buffer.alloc(50, '.')])
      for (const frames of [
        [serverFrame(1, true, body)],
        [serverFrame(1, false, body.subarray(0, MIB)), serverFrame(0, true, body.subarray(MIB))],
      ]) {
        const { out } = await through(new FrameMask([VALUE]), [...cut(Buffer.concat(frames), 65_536)])
        const sent = framesOf(out)
        assert.deepEqual([sent[0]?.opcode, sent.at(-1)?.isLast], [1, true])
        assert.ok(sent.slice(1).every(({ opcode }) => opcode === 0))
        const message = Buffer.concat(sent.map(({ payload }) => payload))
        assert.equal(message.length, body.length)
        assert.equal(message.subarray(before, before + VALUE.length).toString(), '*'.repeat(VALUE.length))
      }
    }
  })

  test('server frames without a value keep their form', async () => {
    const frames = [
      serverFrame(1, true, Buffer.from('hello')),
      serverFrame(9, true, Buffer.alloc(0)),
      serverFrame(2, false, Buffer.from('one ')),
      serverFrame(10, true, Buffer.from('pong')),
      serverFrame(0, false, Buffer.from('two ')),
      serverFrame(0, true, Buffer.alloc(0)),
      serverFrame(2, true, Buffer.alloc(70_000, 7)),
    ]
    const whole = Buffer.concat(frames)
    for (const size of [1, 2, 7, 1000, whole.length])
      assert.deepEqual((await through(new FrameMask([VALUE]), cut(whole, size))).out, whole)
  })

  test('many empty server frames are not buffered', async () => {
    const empty = serverFrame(0, false, Buffer.alloc(0))
    const chunks = [serverFrame(1, false, Buffer.from('a')), ...Array.from({ length: 100_000 }, () => empty)]
    const { out } = await through(new FrameMask([VALUE]), [...chunks, serverFrame(0, true, Buffer.from('b'))])
    assert.equal(Buffer.concat(framesOf(out).map(({ payload }) => payload)).toString(), 'ab')
    assert.equal(framesOf(out).length, 2)
  })

  test('server frames out of order end the connection', async () => {
    const [first, whole] = [serverFrame(1, false, Buffer.from('a')), serverFrame(1, true, Buffer.from('b'))]
    const long = Buffer.from(serverFrame(9, true, Buffer.alloc(200)))
    for (const frames of [
      [first, whole],
      [serverFrame(0, true, Buffer.from('c'))],
      [long],
      [serverFrame(9, false, Buffer.alloc(0))],
    ])
      assert.ok((await through(new FrameMask([VALUE]), frames)).error)
  })
})

describe('frames from a client', () => {
  const half = TEST_PLACEHOLDER.slice(0, 20)
  const rest = TEST_PLACEHOLDER.slice(20)

  test('client frames with a placeholder are stopped, whatever is between its parts', async () => {
    const between = [serverFrame(9, true, Buffer.from('x')), serverFrame(0, false, Buffer.alloc(0))]
    for (const frames of [
      [serverFrame(1, false, Buffer.from(half)), ...between, serverFrame(0, true, Buffer.from(rest))],
      [
        serverFrame(9, true, Buffer.from(half)),
        serverFrame(1, true, Buffer.from('x')),
        serverFrame(9, true, Buffer.from(rest)),
      ],
      [serverFrame(1, true, Buffer.concat([Buffer.alloc(MIB - 20), Buffer.from(TEST_PLACEHOLDER)]))],
    ]) {
      const { error, out } = await through(new FrameGuard([TEST_PLACEHOLDER]), frames)
      assert.ok(error)
      assert.ok(!out.includes(TEST_PLACEHOLDER) && !out.includes(rest))
    }
  })

  test('client frames pass unchanged, however they are split', async () => {
    const whole = Buffer.concat([
      serverFrame(1, true, Buffer.from(half)),
      serverFrame(2, true, Buffer.alloc(MIB + 5000, 3)),
      serverFrame(8, true, Buffer.from('xx')),
    ])
    for (const size of [1000, 65_536, whole.length]) {
      const { out, error } = await through(new FrameGuard([TEST_PLACEHOLDER]), cut(whole, size))
      assert.equal(error, undefined)
      assert.ok(out.equals(whole))
    }
  })

  test('client frames that arrive byte by byte cost time linear in the bytes', async () => {
    const whole = serverFrame(2, true, Buffer.alloc(MIB, 3))
    const started = performance.now()
    const { out } = await through(new FrameGuard([TEST_PLACEHOLDER]), cut(whole, 1))
    assert.ok(out.equals(whole))
    // Putting everything together for each byte takes minutes.
    assert.ok(performance.now() - started < 15_000)
  })
})
