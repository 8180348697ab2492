import assert from 'node:assert/strict'
import { Readable, type Transform, Writable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { describe, test } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { BodyGuard, BodyMask, Misplaced, Unreadable } from './secret-body.ts'
import { PLACEHOLDER, VALUE } from './testing/secure-stage.ts'

async function through(stream: Transform, chunks: Iterable<Buffer>): Promise<Buffer | Error> {
  const parts: Buffer[] = []
  stream.on('data', (chunk: Buffer) => parts.push(chunk))
  const done = finished(stream).then(
    () => Buffer.concat(parts),
    (error: Error) => error,
  )
  for (const chunk of chunks) {
    if (stream.destroyed) break
    if (!stream.write(chunk))
      await new Promise((resolve) => stream.once('drain', resolve).once('close', resolve))
  }
  if (!stream.destroyed) stream.end()
  return done
}

function* cut(bytes: Buffer, size: number): Iterable<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** So much that no packer leaves a word of it as it is. */
const LONG = Array.from({ length: 400 }, (_, at) => `${at * 7919} `).join('')
const text = (word: string): Buffer => Buffer.from(`before ${LONG}${word} after`)
const join = (...parts: Buffer[]): Buffer => Buffer.concat(parts)
const CODINGS: readonly (readonly [string, string, (bytes: Buffer) => Buffer])[] = [
  ['gzip', 'gzip', (bytes) => gzipSync(bytes)],
  ['gzip in two members', 'gzip', (bytes) => join(gzipSync('first '), gzipSync(bytes))],
  ['deflate', 'deflate', (bytes) => deflateSync(bytes)],
  ['deflate without a head', 'deflate', (bytes) => deflateRawSync(bytes)],
  ['deflate stored without a head', 'deflate', (bytes) => deflateRawSync(bytes, { level: 0 })],
  ['brotli', 'br', (bytes) => brotliCompressSync(bytes)],
  ['zstd', 'zstd', (bytes) => zstdCompressSync(bytes)],
  ['zstd in two frames', 'zstd', (bytes) => join(zstdCompressSync('first '), zstdCompressSync(bytes))],
]
const SIZES = [1, 2, 5, 100_000]

describe('a body on its way out', () => {
  for (const [name, coding, pack] of CODINGS)
    test(`packed as ${name} is looked into, and passes as it is where nothing is in it`, async () => {
      for (const size of SIZES) {
        const hidden = pack(text(PLACEHOLDER))
        assert.equal(hidden.includes(PLACEHOLDER), name.includes('stored'))
        const bad = await through(new BodyGuard([PLACEHOLDER], [coding]), cut(hidden, size))
        assert.ok(bad instanceof Misplaced, String(bad))
        const packed = pack(text('nothing'))
        assert.deepEqual(await through(new BodyGuard([PLACEHOLDER], [coding]), cut(packed, size)), packed)
      }
    })

  const [packed, more] = [gzipSync('one'), gzipSync(text(PLACEHOLDER))]
  const BROKEN: readonly (readonly [string, string, Buffer])[] = [
    ['not packed at all', 'gzip', Buffer.from('plain text')],
    ['not packed at all, as deflate', 'deflate', Buffer.from('plain text')],
    ['not packed at all, as brotli', 'br', Buffer.from('plain text')],
    ['not packed at all, as zstd', 'zstd', Buffer.from('plain text')],
    ['cut off', 'gzip', packed.subarray(0, -3)],
    ['followed by padding and another', 'gzip', join(packed, Buffer.alloc(3), more)],
    ['followed by something else', 'gzip', join(packed, Buffer.from('something else that is long enough'))],
    ['deflate followed by another', 'deflate', join(deflateSync('one'), deflateSync(text(PLACEHOLDER)))],
    [
      'brotli followed by another',
      'br',
      join(brotliCompressSync('one'), brotliCompressSync(text(PLACEHOLDER))),
    ],
    ['zstd followed by something else', 'zstd', join(zstdCompressSync('one'), Buffer.from('something else'))],
  ]
  for (const [name, coding, bytes] of BROKEN)
    test(`that is ${name} does not pass`, async () => {
      for (const size of SIZES) {
        const error = await through(new BodyGuard([PLACEHOLDER], [coding]), cut(bytes, size))
        assert.ok(error instanceof Unreadable, `${size} ${error}`)
      }
    })

  test('that is cut off never arrives whole, so that no server has a request to answer', async () => {
    for (const size of SIZES) {
      const guard = new BodyGuard([PLACEHOLDER], ['gzip'])
      let arrived = 0
      guard.on('data', (chunk: Buffer) => {
        arrived += chunk.length
      })
      const bytes = packed.subarray(0, -3)
      assert.ok((await through(guard, cut(bytes, size))) instanceof Unreadable)
      assert.ok(arrived < bytes.length, `${arrived} of ${bytes.length}`)
    }
  })

  test('of no bytes passes whatever its coding', async () => {
    for (const coding of ['gzip', 'deflate', 'br', 'zstd'])
      assert.deepEqual(await through(new BodyGuard([PLACEHOLDER], [coding]), []), Buffer.alloc(0))
  })

  test('that reads as deflate with and without a head is looked into both ways', async () => {
    // The head of zlib is the beginning of a stored block too, whose length is then the next two bytes and their reverse.
    const stored = join(Buffer.from([0x78, 0x9c, 0x00, 0x63, 0xff]), Buffer.alloc(0x9c))
    const both = join(stored, deflateRawSync(text(PLACEHOLDER)))
    assert.ok(!both.includes(PLACEHOLDER))
    assert.ok((await through(new BodyGuard([PLACEHOLDER], ['deflate']), [both])) instanceof Misplaced)
  })
})

describe('a body on its way in', () => {
  for (const [name, coding, pack] of CODINGS)
    test(`packed as ${name} comes out unpacked, its values covered`, async () => {
      for (const size of SIZES) {
        const out = await through(new BodyMask([VALUE], [coding]), cut(pack(text(VALUE)), size))
        assert.match(String(out).replace(LONG, ''), /^(?:first )?before \*{24} after$/)
      }
    })

  test('that cannot be unpacked is cut, and what follows it is left out', async () => {
    assert.ok((await through(new BodyMask([VALUE], ['gzip']), [Buffer.from(VALUE)])) instanceof Error)
    const followed = join(gzipSync('one'), Buffer.alloc(3), Buffer.from(VALUE))
    for (const size of SIZES)
      assert.equal(String(await through(new BodyMask([VALUE], ['gzip']), cut(followed, size))), 'one')
  })

  test('that grows without end waits for who reads it', async () => {
    for (const [coding, bomb] of [
      ['gzip', gzipSync(Buffer.alloc(256 * 1024 * 1024))],
      ['br', brotliCompressSync(Buffer.alloc(64 * 1024 * 1024))],
    ] as const) {
      const mask = new BodyMask([VALUE], [coding])
      const before = process.memoryUsage.rss()
      let [taken, go] = [0, (): void => undefined]
      mask.pipe(
        new Writable({
          write(chunk: Buffer, _, done) {
            taken += chunk.length
            go = done
          },
        }),
      )
      for (const chunk of cut(bomb, 16_384)) mask.write(chunk)
      mask.end()
      await new Promise((resolve) => setTimeout(resolve, 300))
      assert.ok(taken < 1024 * 1024 && mask.readableLength < 1024 * 1024, `${taken} ${mask.readableLength}`)
      for (let at = 0; at < 50; at++) {
        const next = go
        go = () => undefined
        next()
        await new Promise((resolve) => setImmediate(resolve))
      }
      assert.ok(taken < 16 * 1024 * 1024)
      assert.ok(process.memoryUsage.rss() - before < 64 * 1024 * 1024)
      mask.destroy()
    }
  })
})

test('a body that is covered passes with nothing of the placeholder in it, wherever it is cut; other spellings do not', async () => {
  const placeholder = 'agentpod-placeholder-0123456789abcdef'
  const covered = async (parts: readonly Buffer[]): Promise<string> => {
    const guard = new BodyGuard([placeholder], [], undefined, { covers: true })
    const passed: Buffer[] = []
    guard.on('data', (chunk: Buffer) => passed.push(chunk))
    await pipeline(Readable.from(parts), guard)
    return Buffer.concat(passed).toString('utf8')
  }
  const text = `{"said":"KEY=${placeholder}","more":1}`
  for (let cut = 0; cut <= text.length; cut++) {
    const bytes = Buffer.from(text)
    const passed = await covered([bytes.subarray(0, cut), bytes.subarray(cut)])
    assert.equal(passed.length, text.length, 'the length is as the head says')
    assert.ok(!passed.includes(placeholder.slice(0, 12)), passed)
    assert.equal(JSON.parse(passed).more, 1)
  }
  const coded = placeholder.replaceAll('a', '%61')
  await assert.rejects(covered([Buffer.from(`{"said":"${coded}"}`)]), Misplaced)
  await assert.rejects(
    pipeline(Readable.from([text]), new BodyGuard([placeholder], [])),
    Misplaced,
    'the control',
  )
})
