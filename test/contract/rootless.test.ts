/**
 * The provider contract as an ordinary user: podhost belongs to that user and answers no other, so the suite
 * runs as that user too.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chownSync, copyFileSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { NO_GVISOR, RUNSC } from '../support/gvisor.ts'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { ROOT } from '../support/world.ts'

const LIMIT_MS = 240_000

test('PROV-2 the provider contract holds for an ordinary user', { skip: noOrdinaryUser() }, (t) =>
  runContract(t),
)

test(
  'PROV-2 PROV-9 the provider contract on gVisor holds for an ordinary user',
  {
    skip: noOrdinaryUser() || NO_GVISOR,
  },
  (t) => runContract(t, RUNSC),
)

/** With `runsc`, on gVisor. */
async function runContract(t: TestContext, runsc?: string): Promise<void> {
  using user = makeOrdinaryUser()
  const installed = dirname(user.agentpod)
  const home = join(user.home, 'state')
  for (const directory of [home, join(home, 'run'), join(home, 'tmp')]) {
    mkdirSync(directory, { mode: 0o700 })
    chownSync(directory, user.uid, user.gid)
  }
  const own = runsc === undefined ? '' : join(installed, 'runsc')
  if (runsc !== undefined) copyFileSync(runsc, own)
  const bundle = join(installed, 'contract.mjs')
  execFileSync(join(ROOT, 'node_modules/.bin/esbuild'), [
    join(ROOT, 'test/support/rootless-contract.ts'),
    ...[
      '--bundle',
      '--format=esm',
      '--platform=node',
      '--target=node24',
      `--outfile=${bundle}`,
      '--log-level=warning',
    ],
  ])
  const { stdout } = spawnSync(
    join(installed, 'node'),
    ['--test', '--test-isolation=none', '--test-reporter=tap', bundle],
    {
      uid: user.uid,
      gid: user.gid,
      cwd: '/',
      encoding: 'utf8',
      timeout: LIMIT_MS,
      maxBuffer: 16 << 20,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: user.home,
        USER: user.name,
        AGENTPOD_CONTRACT: [home, user.programs.podhost, user.programs.podd, own].join(':'),
      },
    },
  )
  const cases = [...stdout.matchAll(/^ {4}(not ok|ok) \d+ - (.*?)(?: # SKIP ?(.*))?$/gm)]
  assert.ok(cases.length > 20, stdout.slice(-4000))
  for (const [, verdict, name = '', skipped] of cases) {
    await t.test(name, { skip: skipped ?? false }, () => assert.equal(verdict, 'ok', detail(stdout, name)))
  }
}

/** What the runner said about a case that failed. */
function detail(tap: string, name: string): string {
  const at = tap.indexOf(`- ${name}`)
  return tap.slice(at, at + 1500)
}
