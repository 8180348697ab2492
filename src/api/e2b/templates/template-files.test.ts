import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { FakeClock } from '../../../testing/fake-clock.ts'
import { SeededRandom } from '../../../testing/seeded-random.ts'
import { sha256Hex } from '../../../util/sha256.ts'
import { TemplateFiles } from './template-files.ts'
import { parseTemplateRef } from './template-name.ts'

const HASH = 'a'.repeat(64)
const make = (): { files: TemplateFiles; directory: string } => {
  const directory = mkdtempSync(join(tmpdir(), 'template-files-'))
  return {
    directory,
    files: new TemplateFiles({ directory, clock: new FakeClock(), random: new SeededRandom(1) }),
  }
}

test('an upload is stored decompressed, for its owner alone', async () => {
  const { files } = make()
  const tar = Buffer.from('a tar archive')
  await files.put('one', HASH, Readable.from([gzipSync(tar)]))
  assert.equal(files.digestOf('one', HASH), sha256Hex(tar))
  assert.equal(files.digestOf('two', HASH), undefined)
  assert.deepEqual(await buffer(files.open('one', sha256Hex(tar)) ?? Readable.from([])), tar)
  assert.equal(files.open('two', sha256Hex(tar)), undefined)
})

test('an upload that is not compressed is stored, and a second one replaces it', async () => {
  const { files, directory } = make()
  await files.put('one', HASH, Readable.from([Buffer.from('first')]))
  await files.put('one', HASH, Readable.from([Buffer.from('second')]))
  assert.equal(files.digestOf('one', HASH), sha256Hex('second'))
  assert.equal(readdirSync(directory).length, 1)
})

test('a damaged or empty upload leaves nothing', async () => {
  const { files, directory } = make()
  const cut = gzipSync(Buffer.alloc(10_000, 'x')).subarray(0, 20)
  await assert.rejects(files.put('one', HASH, Readable.from([cut])), { code: 'invalid_argument' })
  await assert.rejects(files.put('one', HASH, Readable.from([])), { code: 'invalid_argument' })
  assert.deepEqual(readdirSync(directory), [])
})

test('an upload that stops without an end fails and leaves nothing', async () => {
  const { files, directory } = make()
  const whole = gzipSync(randomBytes(100_000))
  for (const data of [whole.subarray(0, 50_000), Buffer.from('a plain arch')]) {
    const source = new PassThrough()
    const putting = files.put('one', HASH, source)
    source.write(data)
    setImmediate(() => source.destroy())
    await assert.rejects(putting, { code: 'invalid_argument', reason: 'template.files' })
  }
  assert.deepEqual(readdirSync(directory), [])
})

test('an upload that arrives byte by byte is recognized', async () => {
  const { files } = make()
  const bytes = [...gzipSync('a tar archive')].map((byte) => Buffer.from([byte]))
  await files.put('one', HASH, Readable.from(bytes))
  assert.equal(files.digestOf('one', HASH), sha256Hex('a tar archive'))
})

test('of two uploads of one hash at once, one stays', async () => {
  const { files, directory } = make()
  const put = (text: string): Promise<void> => files.put('one', HASH, Readable.from([Buffer.from(text)]))
  await Promise.all(Array.from({ length: 20 }, (_, at) => put(`archive ${at}`)))
  assert.equal(readdirSync(directory).length, 1)
  assert.ok(files.digestOf('one', HASH))
})

test('a full disk is named, and leaves nothing', {
  skip: process.getuid?.() !== 0 && 'needs root',
}, async () => {
  const { files, directory } = make()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', directory])
  try {
    const large = Readable.from([Buffer.alloc(4 * 1024 * 1024)])
    await assert.rejects(files.put('one', HASH, large), { reason: 'disk.full' })
    assert.deepEqual(readdirSync(directory), [])
  } finally {
    execFileSync('umount', [directory])
  }
})

test('the name of a template may have a team and a tag', () => {
  assert.deepEqual(parseTemplateRef('team/Mine:v1'), { name: 'mine', tag: 'v1' })
  assert.deepEqual(parseTemplateRef('mine'), { name: 'mine', tag: undefined })
  for (const wrong of ['', '-x', 'a b', 'a:', 'a:b c', '../a', 'a/b/c'])
    assert.throws(() => parseTemplateRef(wrong), { code: 'invalid_argument' })
})
