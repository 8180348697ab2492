import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { bringBackCommand } from './run-in-copy.ts'

test('a sandbox that writes without end instead of a result is not listened to without end', async () => {
  const root = mkdtempSync(join(tmpdir(), 'run-in-copy-'))
  let bytes = 0
  const output = async function* (): AsyncGenerator<{ stream: 'stdout'; data: Buffer }> {
    for (; bytes < 64 * 1024 * 1024; bytes += 65_536)
      yield { stream: 'stdout', data: Buffer.alloc(65_536, 'x') }
  }
  const sandbox = { exec: () => ({ output, exit: { exitCode: 0 } }) }
  const project = { key: '0'.repeat(64), workspace: '/home/user/project', tree: '0'.repeat(40) }
  const copy = { copy: { project, user: 'user' }, sandbox } as never
  try {
    await assert.rejects(
      bringBackCommand({ home: { root } } as never, {} as never, {} as never, copy, []),
      (error) => isAgentPodError(error, 'resource_exhausted'),
    )
    assert.ok(bytes < 1024 * 1024, `${bytes} bytes were taken`)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})
