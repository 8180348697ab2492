import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Podhost } from './podhost.ts'

const REASON = 'podhost did not start: podhost: no user namespaces here'

for (const [order, script] of [
  ['stdout first', 'exec >&-; sleep 0.1; echo "podhost: no user namespaces here" >&2'],
  ['stderr first', 'echo "podhost: no user namespaces here" >&2; exec 2>&-; sleep 0.1'],
] as const)
  test(`a podhost that cannot start gives its reason at once, also when it closes ${order}`, async () => {
    const home = mkdtempSync(join(tmpdir(), 'agentpod-podhost-'))
    try {
      const program = join(home, 'podhost')
      writeFileSync(program, `#!/bin/sh\n${script}\nexit 1\n`, { mode: 0o755 })
      const podhost = new Podhost({ home, podhost: program, podd: '/none' })
      await assert.rejects(podhost.call('hello', {}, { timeoutMs: 10_000 }), { message: REASON })
      // The next call starts it again.
      await assert.rejects(podhost.call('hello', {}, { timeoutMs: 10_000 }), { message: REASON })
    } finally {
      rmSync(home, { recursive: true, force: true })
    }
  })
