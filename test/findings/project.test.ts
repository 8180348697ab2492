/** What outside verification found in the project's own checks. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { findGroups, findTraces } from '../../scripts/harness/leftovers.ts'
import { skipped, skipsByReason } from '../../scripts/harness/result.ts'
import { filesBelow } from '../support/files-below.ts'
import { ROOT, until, World } from '../support/world.ts'

test('T1: the search for keys in a state directory does not follow a link to the machine', () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-links-'))
  try {
    const [machine, state] = [join(directory, 'machine'), join(directory, 'state')]
    mkdirSync(machine)
    mkdirSync(join(state, 'base'), { recursive: true })
    writeFileSync(join(machine, 'lock.json'), '', { mode: 0o644 })
    writeFileSync(join(state, 'base', 'own'), '')
    symlinkSync(machine, join(state, 'base', 'run'))
    symlinkSync(join(machine, 'lock.json'), join(state, 'lock.json'))
    assert.deepEqual(filesBelow(state), ['base/own'])
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('T2: skipped tests are counted by reason', () => {
  const cases = [skipped('a', 'needs KVM'), skipped('b', 'only root'), skipped('c', 'needs KVM')]
  assert.deepEqual(skipsByReason(cases), [
    ['needs KVM', 2],
    ['only root', 1],
  ])
  const { stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts', 'test.ts'), 'nothing', '--verbose'], {
    encoding: 'utf8',
  })
  assert.match(stderr, /usage: .*\[--verbose\]/)
})

test('T3: the check for leftovers sees what the run left, and no other AgentPod of the machine', async () => {
  const runDirectory = mkdtempSync(join(tmpdir(), 'agentpod-run-'))
  // Other AgentPods may start and end on this machine during the check.
  const earlier = await findGroups()
  const look = (): Promise<string[]> => findTraces(runDirectory, earlier)
  const seesNothing = async (): Promise<boolean> => (await look()).length === 0
  await using stranger = new World()
  {
    await using own = new World({ home: mkdtempSync(join(runDirectory, 'agentpod-')) })
    await stranger.ok(['create', '--name', 'theirs'])
    await until('no trace of another AgentPod at work', seesNothing)

    await own.ok(['create', '--name', 'ours'])
    const left = await look()
    const kinds = [...new Set(left.map((line) => line.split(' ')[0]))]
    for (const kind of ['process', 'socket']) assert.ok(kinds.includes(kind), `${kind}: ${left.join('\n')}`)
    if (execFileSync('id', ['-u'], { encoding: 'utf8' }).trim() === '0')
      assert.ok(kinds.includes('cgroup'), left.join('\n'))
    for (const program of ['podd', 'podhost', 'serve'])
      assert.ok(
        left.some((line) => line.startsWith('process') && line.includes(program)),
        program,
      )
    process.kill(own.serverPid, 'SIGKILL')
    assert.ok((await look()).some((line) => line.includes('podd')))
  }
  await until('no trace after the reset', seesNothing)
  rmSync(runDirectory, { recursive: true })
})
