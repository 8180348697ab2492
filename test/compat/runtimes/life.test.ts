/** The SDK on Node, Bun and Deno against a server on a fake provider: what is paused, kept and copied. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { Front } from '../../support/front.ts'
import { RUNTIMES } from './runtime.ts'

let front: Front
let tmp = ''
before(async () => {
  tmp = mkdtempSync(join(tmpdir(), 'agentpod-life-'))
  front = await Front.open({ tmpDir: tmp, rate: { perSecond: 1e6, burst: 1e6 } })
})
after(async () => {
  await front[Symbol.asyncDispose]()
  rmSync(tmp, { recursive: true })
})

const EXPECTED = [
  ...['paused', 'running', 'stopped', 'running'],
  '1 snapshot',
  '1000000 bytes',
  '2 forks',
  'snapshot.damaged',
  'sandbox.state',
  'stopped',
]

for (const [name, find] of Object.entries(RUNTIMES)) {
  test(`API-1 sandboxes are paused, snapshotted and copied from ${name}`, { timeout: 120_000 }, async (t) => {
    const found = find(join(import.meta.dirname, 'life.ts'))
    if ('missing' in found) return t.skip(found.missing)
    const [program = '', ...args] = found.command
    const place = [`http://127.0.0.1:${front.port}`, front.key()]
    const { stdout } = await promisify(execFile)(program, [...args, ...place], { timeout: 60_000 })
    assert.deepEqual(stdout.trimEnd().split('\n'), EXPECTED)
  })
}
