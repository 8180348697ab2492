import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { parseOwner } from '../../core/id.ts'
import { LOCAL } from '../../core/principal.ts'
import type { RootRef } from '../../core/provider.ts'
import { openDatabase } from '../../store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../../store/events.ts'
import { groupStore } from '../../store/groups.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../store/sandboxes.ts'
import { snapshotStore } from '../../store/snapshots.ts'
import { volumeStore } from '../../store/volumes.ts'
import { silentLog } from '../../telemetry/log.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { FakeProvider } from '../../testing/fake-provider.ts'
import { SeededRandom } from '../../testing/seeded-random.ts'
import { Engine } from '../engine.ts'

test('a snapshot that depends on another is not exported; the one below it is', async (t) => {
  const tmpDir = mkdtempSync(join(tmpdir(), 'agentpod-archive-'))
  const state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  const events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  const clock = new FakeClock()
  let root: RootRef = { kind: 'host' }
  const engine = new Engine({
    sandboxes: sandboxStore(state),
    snapshots: snapshotStore(state),
    volumes: volumeStore(state),
    groups: groupStore(state),
    tmpDir,
    events: eventStore(events),
    providers: [new FakeProvider({ clock })],
    roots: { ensure: async () => ({ root }) },
    owner: parseOwner('archive-test'),
    clock,
    random: new SeededRandom(7),
    log: silentLog,
  })
  await engine.open()
  t.after(() => {
    engine.close()
    state.close()
    events.close()
    rmSync(tmpDir, { recursive: true })
  })
  const below = await engine.snapshots.create(
    (await engine.sandboxes.create({}, LOCAL)).id,
    { name: 'below' },
    LOCAL,
  )
  root = { kind: 'host', over: [below.id] }
  const above = await engine.snapshots.create(
    (await engine.sandboxes.create({}, LOCAL)).id,
    { name: 'above' },
    LOCAL,
  )
  assert.deepEqual(above.root, root)

  await assert.rejects(engine.snapshots.export('above', LOCAL), (error) => {
    assert.ok(isAgentPodError(error, 'unsupported'), String(error))
    assert.equal(error.reason, 'snapshot.environment')
    assert.ok(error.hint)
    return true
  })
  assert.deepEqual(readdirSync(tmpDir), [])
  const chunks: Buffer[] = []
  for await (const chunk of await engine.snapshots.export('below', LOCAL)) chunks.push(chunk as Buffer)
  assert.match(Buffer.concat(chunks).toString('utf8'), /^agentpod-snapshot 1 /)
})
