/**
 * The attacks on sandboxes on every provider, with their controls: docs/reference/attacks.md has the results.
 * E2B's own SDKs run on gVisor too. AGENTPOD_UPDATE_DOCS=1 records the results, those of crun included.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { casesOf, type FileResult, RESULTS_FILE, readResults, resultOf } from '../support/attack-table.ts'
import { bootstrapDebian } from '../support/bootstrapped.ts'
import { hasHostBase, type ProviderName } from '../support/chosen-provider.ts'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { NO_GVISOR } from '../support/gvisor.ts'
import { NO_QEMU } from '../support/qemu.ts'
import { ROOT } from '../support/world.ts'

const ATTACKS = [
  ...['network', 'secrets', 'api', 'leaks', 'state', 'privileges', 'files', 'resources', 'kernel-limits'],
].map((name) => `test/attack/${name}.test.ts`)
const IS_RECORDING = process.env['AGENTPOD_UPDATE_DOCS'] === '1'
const LONGEST_MS = 1_500_000
const MOST_SAID = 6000
/** Without the options of this test run: a pattern for its names would leave out every test of a file. */
const EXEC_ARGV = process.execArgv.filter((option) => !option.startsWith('--test'))

interface Level {
  readonly provider: ProviderName
  readonly skip: string | false
  /** Tests of this provider alone. */
  readonly more: readonly string[]
}

const LEVELS: readonly Level[] = [
  { provider: 'crun', skip: !IS_RECORDING && '`npm test` runs them', more: [] },
  { provider: 'gvisor', skip: NO_GVISOR ?? false, more: ['test/compat/e2b/sdk.test.ts'] },
  { provider: 'qemu', skip: NO_QEMU ?? false, more: [] },
  { provider: 'docker', skip: NO_DOCKER, more: ['test/attack/docker.test.ts'] },
]

function record(provider: ProviderName, file: string, result: FileResult): void {
  const results = readResults()
  const files = { ...results[provider], [file]: result }
  writeFileSync(RESULTS_FILE, `${JSON.stringify({ ...results, [provider]: files }, null, 2)}\n`)
}

/** What the runner of a file said of the tests that failed. */
function failuresIn(tap: string): string {
  const parts = tap.split(/^ *# Subtest: /m).filter((one) => /^ *not ok /m.test(one))
  return parts.join('\n').slice(0, MOST_SAID)
}

for (const { provider, skip, more } of LEVELS)
  describe(`on ${provider}`, { skip }, () => {
    if (!hasHostBase(provider)) before(bootstrapDebian)
    for (const file of [...ATTACKS, ...more])
      test(`PROV-9 PROV-13 ${file} passes on ${provider}`, { timeout: LONGEST_MS }, () => {
        const ran = spawnSync(
          process.execPath,
          [...EXEC_ARGV, '--test', '--test-reporter=tap', join(ROOT, file)],
          {
            cwd: ROOT,
            encoding: 'utf8',
            timeout: LONGEST_MS,
            maxBuffer: 64 << 20,
            env: {
              ...process.env,
              AGENTPOD_TEST_PROVIDER: provider,
              AGENTPOD_LONG: '1',
              // A test runner that finds this variable thinks that it is a part of another one.
              NODE_TEST_CONTEXT: undefined,
            },
          },
        )
        const cases = casesOf(ran.stdout)
        assert.deepEqual(
          cases.filter(({ isPassed }) => !isPassed).map(({ name }) => name),
          [],
          failuresIn(ran.stdout),
        )
        assert.equal(ran.status, 0, ran.stderr)
        assert.ok(
          cases.some(({ skip: reason }) => reason === undefined),
          'something ran',
        )
        if (!file.startsWith('test/attack/')) return
        const result = resultOf(cases)
        if (IS_RECORDING) record(provider, file, result)
        const { differs = {} } = readResults()[provider]?.[file] ?? {}
        const unknown = Object.keys(result.differs).filter((name) => !(name in differs))
        assert.deepEqual(unknown, [], 'docs/reference/attacks.json has every test that differs')
      })
  })
