import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { packTar } from '../../../util/file/tar-writer.ts'
import { readTar } from './tar.ts'

/** Everything of an archive, given to the reader in pieces of `step` bytes. */
async function read(archive: Buffer, step: number): Promise<[string, string, string][]> {
  const pieces: Buffer[] = []
  for (let at = 0; at < archive.length; at += step) pieces.push(archive.subarray(at, at + step))
  const found: [string, string, string][] = []
  for await (const { path, type, content } of readTar(Readable.from(pieces))) {
    const parts: Buffer[] = []
    if (path !== 'skipped') for await (const part of content()) parts.push(part)
    found.push([path, type, Buffer.concat(parts).toString()])
  }
  return found
}

const FILES = [
  { path: 'etc', mode: 0o755 },
  { path: 'etc/passwd', mode: 0o644, content: Buffer.from('root:x:0:0\n') },
  { path: 'skipped', mode: 0o600, content: Buffer.alloc(2000, 'x') },
  { path: 'full', mode: 0o600, content: Buffer.alloc(1024, 'y') },
  { path: 'empty', mode: 0o600, uid: 1000, gid: 1000, content: Buffer.alloc(0) },
]

describe('tar archives', () => {
  test('tar archives that we write can be read, in pieces of any size', async () => {
    for (const step of [1, 100, 512, 100_000])
      assert.deepEqual(await read(packTar(FILES), step), [
        ['etc/', '5', ''],
        ['etc/passwd', '0', 'root:x:0:0\n'],
        ['skipped', '0', ''],
        ['full', '0', 'y'.repeat(1024)],
        ['empty', '0', ''],
      ])
  })

  test('tar archives that we write can be read by tar', () => {
    const listed = execFileSync('tar', ['-tvf', '-', '--numeric-owner'], {
      input: packTar(FILES),
      encoding: 'utf8',
    })
    assert.match(listed, /drwxr-xr-x 0\/0 .* etc\//)
    assert.match(listed, /-rw------- 1000\/1000 +0 .* empty/)
  })

  test('tar archives of tar itself are read, with long names of both kinds', async () => {
    const long = `${'d'.repeat(90)}/${'n'.repeat(90)}`
    for (const format of ['gnu', 'pax']) {
      const script = `cd "$(mktemp -d)" && mkdir ${'d'.repeat(90)} && echo hi > ${long} && tar --format=${format} -cf - ${long} && rm -r "$PWD"`
      assert.deepEqual(await read(execFileSync('sh', ['-c', script]), 700), [[long, '0', 'hi\n']])
    }
  })

  test('tar archives that end too early, or have a wrong size, are refused', async () => {
    await assert.rejects(read(packTar(FILES).subarray(0, 1200), 512))
    const lying = packTar(FILES)
    lying.write('zzzzzzzzzzz', 124)
    await assert.rejects(read(lying, 512))
  })
})
