/** An engine on databases in memory, a fake provider and a fake clock. */
import { tmpdir } from 'node:os'
import type { DatabaseSync } from 'node:sqlite'
import { parseOwner } from '../../core/id.ts'
import { openDatabase } from '../../store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../../store/events.ts'
import { groupStore } from '../../store/groups.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../store/sandboxes.ts'
import { snapshotStore } from '../../store/snapshots.ts'
import { volumeStore } from '../../store/volumes.ts'
import { silentLog } from '../../telemetry/log.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { FakeProvider, type FakeProviderOptions } from '../../testing/fake-provider.ts'
import { SeededRandom } from '../../testing/seeded-random.ts'
import type { EngineParts } from '../context.ts'
import { Engine } from '../engine.ts'

export interface EngineFixtureOptions {
  readonly provider?: Omit<FakeProviderOptions, 'clock'>
  /** In place of the fixture's own parts. */
  readonly parts?: Partial<EngineParts>
}

/** The databases, the provider and the clock outlive each engine. */
export class EngineFixture implements Disposable {
  readonly clock = new FakeClock()
  readonly provider: FakeProvider
  readonly state: DatabaseSync = openDatabase({
    path: ':memory:',
    synchronous: 'FULL',
    migrations: STATE_MIGRATIONS,
  })
  readonly events: DatabaseSync = openDatabase({
    path: ':memory:',
    synchronous: 'NORMAL',
    migrations: EVENT_MIGRATIONS,
  })
  readonly #parts: Partial<EngineParts>
  #engine: Engine | undefined

  constructor(o: EngineFixtureOptions = {}) {
    this.provider = new FakeProvider({ ...o.provider, clock: this.clock })
    this.#parts = o.parts ?? {}
  }

  get engine(): Engine {
    if (this.#engine) return this.#engine
    throw new Error('the engine is not open')
  }

  /** Opens an engine, after closing the one before it. */
  async open(): Promise<Engine> {
    this.#engine?.close()
    this.#engine = this.make()
    await this.#engine.open()
    return this.#engine
  }

  /** An engine that is not open yet. */
  make(more: Partial<EngineParts> = {}): Engine {
    return new Engine({
      sandboxes: sandboxStore(this.state),
      snapshots: snapshotStore(this.state),
      volumes: volumeStore(this.state),
      groups: groupStore(this.state),
      events: eventStore(this.events),
      tmpDir: tmpdir(),
      providers: [this.provider],
      roots: { ensure: async () => ({ root: { kind: 'host' } }) },
      owner: parseOwner('test'),
      clock: this.clock,
      random: new SeededRandom(5),
      log: silentLog,
      ...this.#parts,
      ...more,
    })
  }

  [Symbol.dispose](): void {
    this.#engine?.close()
    this.state.close()
    this.events.close()
  }
}
