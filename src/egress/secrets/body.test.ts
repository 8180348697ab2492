import assert from 'node:assert/strict'
import { Readable, type Transform, Writable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { describe, test } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { TEST_PLACEHOLDER, VALUE } from '../testing/tls-fixture.ts'
import { BodyGuard, BodyMask, PlaceholderFound, UndecodableBody } from './body.ts'

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
    test(`an outgoing body compressed with ${name} is searched, and passes unchanged without a placeholder`, async () => {
      for (const size of SIZES) {
        const hidden = pack(text(TEST_PLACEHOLDER))
        assert.equal(hidden.includes(TEST_PLACEHOLDER), name.includes('stored'))
        const bad = await through(new BodyGuard([TEST_PLACEHOLDER], [coding]), cut(hidden, size))
        assert.ok(bad instanceof PlaceholderFound, String(bad))
        const packed = pack(text('nothing'))
        assert.deepEqual(
          await through(new BodyGuard([TEST_PLACEHOLDER], [coding]), cut(packed, size)),
          packed,
        )
      }
    })

  const [packed, more] = [gzipSync('one'), gzipSync(text(TEST_PLACEHOLDER))]
  const BROKEN: readonly (readonly [string, string, Buffer])[] = [
    ['not packed at all', 'gzip', Buffer.from('plain text')],
    ['not packed at all, as deflate', 'deflate', Buffer.from('plain text')],
    ['not packed at all, as brotli', 'br', Buffer.from('plain text')],
    ['not packed at all, as zstd', 'zstd', Buffer.from('plain text')],
    ['cut off', 'gzip', packed.subarray(0, -3)],
    ['followed by padding and another', 'gzip', join(packed, Buffer.alloc(3), more)],
    ['followed by something else', 'gzip', join(packed, Buffer.from('something else that is long enough'))],
    ['deflate followed by another', 'deflate', join(deflateSync('one'), deflateSync(text(TEST_PLACEHOLDER)))],
    [
      'brotli followed by another',
      'br',
      join(brotliCompressSync('one'), brotliCompressSync(text(TEST_PLACEHOLDER))),
    ],
    ['zstd followed by something else', 'zstd', join(zstdCompressSync('one'), Buffer.from('something else'))],
  ]
  for (const [name, coding, bytes] of BROKEN)
    test(`an outgoing body that is ${name} does not pass`, async () => {
      for (const size of SIZES) {
        const error = await through(new BodyGuard([TEST_PLACEHOLDER], [coding]), cut(bytes, size))
        assert.ok(error instanceof UndecodableBody, `${size} ${error}`)
      }
    })

  test('a truncated outgoing body never arrives complete', async () => {
    for (const size of SIZES) {
      const guard = new BodyGuard([TEST_PLACEHOLDER], ['gzip'])
      let arrived = 0
      guard.on('data', (chunk: Buffer) => {
        arrived += chunk.length
      })
      const bytes = packed.subarray(0, -3)
      assert.ok((await through(guard, cut(bytes, size))) instanceof UndecodableBody)
      assert.ok(arrived < bytes.length, `${arrived} of ${bytes.length}`)
    }
  })

  test('an empty outgoing body passes with any coding', async () => {
    for (const coding of ['gzip', 'deflate', 'br', 'zstd'])
      assert.deepEqual(await through(new BodyGuard([TEST_PLACEHOLDER], [coding]), []), Buffer.alloc(0))
  })

  test('an ambiguous deflate body is searched in both formats', async () => {
    // The head of zlib is the beginning of a stored block too, whose length is then the next two bytes and
    // their reverse.
    const stored = join(Buffer.from([0x78, 0x9c, 0x00, 0x63, 0xff]), Buffer.alloc(0x9c))
    const both = join(stored, deflateRawSync(text(TEST_PLACEHOLDER)))
    assert.ok(!both.includes(TEST_PLACEHOLDER))
    assert.ok(
      (await through(new BodyGuard([TEST_PLACEHOLDER], ['deflate']), [both])) instanceof PlaceholderFound,
    )
  })
})

describe('a body on its way in', () => {
  for (const [name, coding, pack] of CODINGS)
    test(`an incoming body compressed with ${name} is decompressed and masked`, async () => {
      for (const size of SIZES) {
        const out = await through(new BodyMask([VALUE], [coding]), cut(pack(text(VALUE)), size))
        assert.match(String(out).replace(LONG, ''), /^(?:first )?before \*{24} after$/)
      }
    })

  test('an incoming body that cannot be decompressed is cut, and trailing bytes are dropped', async () => {
    assert.ok((await through(new BodyMask([VALUE], ['gzip']), [Buffer.from(VALUE)])) instanceof Error)
    const followed = join(gzipSync('one'), Buffer.alloc(3), Buffer.from(VALUE))
    for (const size of SIZES)
      assert.equal(String(await through(new BodyMask([VALUE], ['gzip']), cut(followed, size))), 'one')
  })

  test('an incoming body that decompresses without end waits for its reader', async () => {
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

test('a masked body contains no placeholder however it is split; encoded placeholders are refused', async () => {
  const placeholder = 'agentpod-placeholder-0123456789abcdef'
  const covered = async (parts: readonly Buffer[]): Promise<string> => {
    const guard = new BodyGuard([placeholder], [], undefined, { masksPlaceholders: true })
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
  await assert.rejects(covered([Buffer.from(`{"said":"${coded}"}`)]), PlaceholderFound)
  await assert.rejects(
    pipeline(Readable.from([text]), new BodyGuard([placeholder], [])),
    PlaceholderFound,
    'the control',
  )
})
