/**
 * The attacks on sandboxes and E2B's own SDKs at other levels of isolation: the same tests as on the
 * machine's kernel, with their controls.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { NO_GVISOR } from '../support/gvisor.ts'
import { ROOT } from '../support/world.ts'

/** Those of docs/reference/attacks.md. */
const ATTACKS = ['network', 'secrets', 'api', 'leaks', 'state', 'privileges', 'files']
const LONGEST_MS = 1_500_000

const LEVELS = [{ provider: 'gvisor', skip: NO_GVISOR, attacks: ATTACKS, sdks: true }] as const

for (const { provider, skip, attacks, sdks } of LEVELS) {
  const files = [
    ...attacks.map((name) => `test/attack/${name}.test.ts`),
    ...(sdks ? ['test/compat/e2b/sdk.test.ts'] : []),
  ]
  describe(`on ${provider}`, { skip }, () => {
    for (const file of files)
      test(`PROV-9 ${file} passes on ${provider}`, { timeout: LONGEST_MS }, () => {
        const ran = spawnSync(
          process.execPath,
          [...process.execArgv, '--test', '--test-reporter=tap', join(ROOT, file)],
          {
            cwd: ROOT,
            encoding: 'utf8',
            timeout: LONGEST_MS,
            maxBuffer: 64 << 20,
            // A test runner that finds this variable thinks that it is a part of another one.
            env: { ...process.env, AGENTPOD_TEST_PROVIDER: provider, NODE_TEST_CONTEXT: undefined },
          },
        )
        const failed = ran.stdout.split('\n').filter((line) => /^\s*not ok /.test(line))
        assert.deepEqual(failed, [], ran.stdout.slice(-3000))
        assert.equal(ran.status, 0, ran.stderr)
        assert.match(ran.stdout, /^# pass [1-9]/m, 'something ran')
      })
  })
}
