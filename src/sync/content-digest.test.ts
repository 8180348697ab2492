import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { contentDigest } from './content-digest.ts'

const directory = mkdtempSync(join(tmpdir(), 'content-digest-'))
after(() => rmSync(directory, { recursive: true }))

test('a digest changes with paths, bytes, links and the executable bit, and with nothing else', async () => {
  const file = join(directory, 'a')
  writeFileSync(file, 'one')
  symlinkSync('a', join(directory, 'link'))
  const paths = ['a', 'gone', 'link']
  const first = await contentDigest(directory, paths)
  utimesSync(file, 1, 1)
  assert.equal(await contentDigest(directory, paths), first)
  const seen = new Set([first])
  const differs = async (names: readonly string[]): Promise<void> => {
    const digest = await contentDigest(directory, names)
    assert.ok(!seen.has(digest))
    seen.add(digest)
  }
  chmodSync(file, 0o755)
  await differs(paths)
  writeFileSync(file, 'two')
  await differs(paths)
  rmSync(join(directory, 'link'))
  symlinkSync('gone', join(directory, 'link'))
  await differs(paths)
  await differs(['a'])
})
