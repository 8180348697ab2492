import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { oldStarts, scratchOf, startObjects } from './project-state.ts'

test('what a killed command left is removed by a later one, and what is in use is not', () => {
  const root = mkdtempSync(join(tmpdir(), 'project-objects-'))
  const key = '0'.repeat(64)
  try {
    const [killed, used] = [scratchOf({ root }, key), scratchOf({ root }, key)]
    writeFileSync(join(killed.path, 'result.pack'), 'x')
    utimesSync(killed.path, 1, 1)
    using _ = scratchOf({ root }, key)
    assert.deepEqual([existsSync(killed.path), existsSync(used.path)], [false, true])
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

test('starts that were kept long ago are found, and younger ones and other files are not', () => {
  const root = mkdtempSync(join(tmpdir(), 'project-objects-'))
  const key = '0'.repeat(64)
  const [old, young] = ['a'.repeat(40), 'b'.repeat(40)]
  try {
    using scratch = scratchOf({ root }, key)
    for (const tree of [old, young]) mkdirSync(startObjects({ root }, key, tree))
    const draft = `${startObjects({ root }, key, old)}-draft-x`
    mkdirSync(draft)
    for (const path of [startObjects({ root }, key, old), draft]) utimesSync(path, 1, 1)
    assert.deepEqual(oldStarts({ root }, key), [old])
    using _ = scratchOf({ root }, key)
    assert.deepEqual([existsSync(draft), existsSync(scratch.path)], [false, true])
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})
