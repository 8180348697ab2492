/** The group of a run that ends before it has a sandbox, on a fake provider. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LOCAL } from '../core/principal.ts'
import { EngineFixture } from '../engine/testing/engine-fixture.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS } from '../store/events.ts'
import { runJournal } from '../store/run-journal.ts'
import { runStore } from '../store/runs.ts'
import { STATE_MIGRATIONS } from '../store/sandboxes.ts'
import { jsonLog } from '../telemetry/log.ts'
import { FakeClock, settled } from '../testing/fake-clock.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import type { NewRun } from './check-request.ts'
import { Runs } from './runs.ts'

const REQUEST: NewRun = {
  agent: 'acp',
  prompt: 'do it',
  number: 1,
  files: [],
  mcpServers: [],
  command: ['agent'],
  permissions: { bash: [], write: [], mcp: [], network: [] },
  limits: { timeMs: 60_000, answerMs: 1000, costUsd: undefined },
  keepMs: 0,
}

interface Stage {
  readonly engine: EngineFixture['engine']
  readonly runs: Runs
  /** A group whose main place is kept, and one that has a sandbox in it. */
  group(name: string): Promise<void>
  groups(): string[]
}

/** No run ever gets its turn. */
async function stage(): Promise<Stage> {
  const fixture = new EngineFixture({ parts: { random: new SeededRandom(3) } })
  await fixture.open()
  const { engine } = fixture
  const clock = new FakeClock()
  const runs = new Runs({
    engine,
    store: runStore(openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })),
    journal: runJournal(
      openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS }),
    ),
    directory: '/nonexistent',
    atOnce: 0,
    mostKept: 100,
    clock,
    random: new SeededRandom(1),
    log: jsonLog(clock, () => undefined),
  })
  return {
    engine,
    runs,
    async group(name) {
      const members = [
        { name: 'web', main: true },
        { name: 'db', sandbox: {} },
      ]
      await engine.groups.create({ name, members }, LOCAL)
    },
    groups: () => engine.groups.list(LOCAL).map(({ group }) => group.name),
  }
}

test('CMP-16 a run that is canceled or removed while it waits takes its group with it', async () => {
  const { engine, runs, group, groups } = await stage()
  for (const end of [(id: string) => void runs.cancel(id, LOCAL), (id: string) => runs.remove(id, LOCAL)]) {
    await group('shop')
    const run = await runs.start({ ...REQUEST, place: { group: 'shop', member: 'web' } }, LOCAL)
    assert.equal(run.state, 'queued')
    assert.equal(engine.sandboxes.list({ labels: {}, all: false }, LOCAL).length, 1)
    await end(run.id)
    await settled()
    assert.deepEqual(groups(), [])
    assert.equal(engine.sandboxes.list({ labels: {}, all: false }, LOCAL).length, 0)
  }
})

test('CMP-16 a group stays if another sandbox has its main place, or if the place was not the main one', async () => {
  const { engine, runs, group, groups } = await stage()
  await group('taken')
  await group('side')
  const waiting = await runs.start({ ...REQUEST, place: { group: 'taken', member: 'web' } }, LOCAL)
  const side = await runs.start({ ...REQUEST, place: { group: 'side', member: 'db' } }, LOCAL)
  await engine.sandboxes.create({ place: { group: 'taken', member: 'web' } }, LOCAL)
  for (const { id } of [waiting, side]) runs.cancel(id, LOCAL)
  await settled()
  assert.deepEqual(groups(), ['taken', 'side'])
})
