import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { systemClock } from '../util/clock.ts'
import { InputFiles } from './input-files.ts'

const DATA = Buffer.from('an archive')
const digestOf = (data: Buffer): string => createHash('sha256').update(data).digest('hex')
const DIGEST = digestOf(DATA)

let root: string
let directory: string
let files: InputFiles
const clock = new FakeClock(systemClock.now())

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'agentpod-inputs-'))
  directory = join(root, 'files')
  files = new InputFiles({
    directory,
    clock,
    random: new SeededRandom(3),
    largestBytes: 1000,
    mostBytes: 1500,
  })
})
afterEach(() => rmSync(root, { recursive: true }))

const put = (data: Buffer, digest = digestOf(data), owner = 'a'): Promise<void> =>
  files.put(owner, digest, Readable.from([data]))

function refused(work: Promise<unknown>, code: ErrorCode, reason: string): Promise<void> {
  return assert.rejects(work, (error) => isAgentPodError(error, code) && error.reason === reason)
}

function isEmpty(): void {
  assert.deepEqual(readdirSync(directory), [])
}

describe('an archive', () => {
  test('an archive can be opened after upload, and not after removal', async () => {
    assert.ok(!files.has('a', DIGEST))
    await put(DATA)
    assert.ok(files.has('a', DIGEST))
    assert.deepEqual(await buffer(files.open('a', DIGEST)), DATA)
    assert.equal(statSync(directory).mode & 0o777, 0o700)
    files.remove('a', DIGEST)
    files.remove('a', DIGEST)
    isEmpty()
  })

  test('an archive that is uploaded twice at once is stored once', async () => {
    await Promise.all([put(DATA), put(DATA)])
    assert.equal(readdirSync(directory).length, 1)
  })

  test('an archive that does not match its digest is not stored', async () => {
    await refused(put(DATA, '0'.repeat(64)), 'invalid_argument', 'build.digest')
    isEmpty()
  })

  test('an interrupted upload leaves nothing', async () => {
    const source = Readable.from(
      (async function* () {
        yield DATA
        throw new Error('cut')
      })(),
    )
    await assert.rejects(files.put('a', DIGEST, source), /cut/)
    isEmpty()
  })

  test('an archive that is too large is not stored', async () => {
    await refused(put(Buffer.alloc(1001)), 'resource_exhausted', 'build.files_too_large')
    isEmpty()
    await put(Buffer.alloc(1000))
  })

  test('archives are limited per owner, and one owner does not use the space of another', async () => {
    await put(Buffer.alloc(1000, 1))
    await refused(put(Buffer.alloc(600, 2)), 'resource_exhausted', 'build.files_too_large')
    await put(Buffer.alloc(500, 2))
    await refused(put(Buffer.alloc(1, 3)), 'resource_exhausted', 'build.files_full')
    await put(Buffer.alloc(1000, 1), undefined, 'b')
  })

  test('a damaged archive fails at its end', async () => {
    await put(DATA)
    writeFileSync(join(directory, readdirSync(directory)[0] ?? ''), 'another one')
    await refused(buffer(files.open('a', DIGEST)), 'data_loss', 'build.digest')
  })

  test('opening a missing archive is an error, not a crash', () =>
    assert.rejects(
      buffer(files.open('a', DIGEST)),
      (error) => (error as NodeJS.ErrnoException).code === 'ENOENT',
    ))

  test('an unused archive is removed after a day, at the next upload', async () => {
    await put(DATA)
    await clock.advance(25 * 3_600_000)
    await put(Buffer.from('x'))
    assert.ok(!files.has('a', DIGEST))
    assert.ok(files.has('a', digestOf(Buffer.from('x'))), 'the control')
  })
})

describe('SECURITY', () => {
  for (const digest of [
    '../../etc/passwd',
    `${'0'.repeat(63)}/`,
    `..${'0'.repeat(62)}`,
    '',
    'A'.repeat(64),
    `${DIGEST}\n`,
    `${DIGEST}\0`,
  ])
    test(`${JSON.stringify(digest.slice(0, 20))} is no digest`, async () => {
      await refused(put(DATA, digest), 'invalid_argument', 'build.digest')
      assert.throws(() => files.has('a', digest), /64 hexadecimal/)
      assert.throws(() => files.open('a', digest), /64 hexadecimal/)
      assert.throws(() => files.remove('a', digest), /64 hexadecimal/)
      assert.deepEqual(readdirSync(root), [])
    })

  test('knowing a digest gives no access to the files of another owner', async () => {
    await put(DATA)
    assert.ok(!files.has('b', DIGEST))
    await assert.rejects(buffer(files.open('b', DIGEST)))
    files.remove('b', DIGEST)
    assert.ok(files.has('a', DIGEST))
  })

  test('an owner is no path', async () => {
    for (const owner of ['../../x', '/etc', '', 'a\0b']) await put(DATA, DIGEST, owner)
    assert.deepEqual(readdirSync(root), ['files'])
    for (const name of readdirSync(directory)) assert.match(name, /^[0-9a-f]{16}-[0-9a-f]{64}\.tar$/)
  })
})
