import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { readInside } from './read-inside.ts'

let scratch: string
let root: string
beforeEach(() => {
  scratch = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-inside-')))
  root = join(scratch, 'project')
  mkdirSync(join(root, 'dir'), { recursive: true })
  mkdirSync(join(scratch, 'project-other'))
  writeFileSync(join(scratch, 'secret'), 'secret')
  writeFileSync(join(scratch, 'project-other', 'secret'), 'secret')
  writeFileSync(join(root, 'plain'), 'plain')
  writeFileSync(join(root, 'dir', 'run.sh'), '#!/bin/sh')
  chmodSync(join(root, 'dir', 'run.sh'), 0o755)
})
afterEach(() => rmSync(scratch, { recursive: true }))

const text = (path: string, most = 100): string | undefined => readInside(root, path, most)?.data.toString()

describe('a file below a directory', () => {
  test('readInside reads a file below the directory, with its executable bit', () => {
    const plain = { data: Buffer.from('plain'), realPath: 'plain', isExecutable: false }
    assert.deepEqual(readInside(root, 'plain', 100), plain)
    assert.equal(readInside(root, 'dir/run.sh', 100)?.isExecutable, true)
  })

  test('readInside follows a link that stays below the directory', () => {
    symlinkSync('../plain', join(root, 'dir', 'link'))
    assert.equal(text('dir/link'), 'plain')
    assert.equal(readInside(root, 'dir/link', 100)?.realPath, 'plain')
  })

  test('readInside reads a file up to its size limit', () => {
    assert.equal(text('plain', 5), 'plain')
    assert.equal(text('plain', 4), undefined)
  })
})

describe('SECURITY: what is none', () => {
  test('readInside refuses links that lead out: of a file, of a directory, and to a neighbor', () => {
    symlinkSync('../secret', join(root, 'link'))
    symlinkSync('..', join(root, 'up'))
    symlinkSync(join(scratch, 'project-other'), join(root, 'other'))
    for (const path of [
      'link',
      'up/secret',
      'other/secret',
      '../secret',
      'dir/../../secret',
      '../project-other/secret',
    ])
      assert.equal(text(path), undefined, path)
  })

  test('readInside refuses a link that is swapped in during the read', () => {
    symlinkSync('../secret', join(scratch, 'evil'))
    for (let i = 0; i < 200; i++) {
      writeFileSync(join(root, 'swapped'), 'plain')
      renameSync(join(scratch, 'evil'), join(root, 'swapped'))
      assert.notEqual(text('swapped'), 'secret')
      renameSync(join(root, 'swapped'), join(scratch, 'evil'))
    }
  })

  test('readInside refuses a directory, a pipe, a device, a missing file, and an endless file of size 0', () => {
    execFileSync('mkfifo', [join(root, 'pipe')])
    symlinkSync('/dev/zero', join(root, 'zero'))
    symlinkSync('/proc/self/environ', join(root, 'environ'))
    for (const path of ['dir', 'pipe', 'zero', 'environ', 'gone', '', '.'])
      assert.equal(text(path), undefined, path)
  })
})
