import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { scratchOf } from './project-objects.ts'

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
