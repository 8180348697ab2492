/** The whole front of a server over fakes: routes, doors, a TCP listener on loopback; no sandbox is real. */

import assert from 'node:assert/strict'
import type { Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'
import { type Access, access } from '../../src/api/access.ts'
import { createApp } from '../../src/api/app.ts'
import type { Control } from '../../src/api/data-plane.ts'
import { type ConnectionLimits, listen, portOf } from '../../src/api/listen.ts'
import { OneTimeCodes } from '../../src/api/one-time-codes.ts'
import { DEFAULT_RATE, type Rate, RateLimit } from '../../src/api/rate-limit.ts'
import { Slots } from '../../src/api/slots.ts'
import { tcpDoor } from '../../src/api/tcp-door.ts'
import { tracer } from '../../src/api/trace.ts'
import { Builder } from '../../src/build/builder.ts'
import { InputFiles } from '../../src/build/input-files.ts'
import { Toolchains } from '../../src/build/toolchains.ts'
import { parseOwner } from '../../src/core/id.ts'
import type { NetworkCap } from '../../src/core/network.ts'
import { Engine } from '../../src/engine/engine.ts'
import { Keys } from '../../src/engine/keys.ts'
import { closeServer } from '../../src/main/listeners.ts'
import { Runs } from '../../src/runs/runs.ts'
import { Box } from '../../src/secrets/box.ts'
import { type AuditStore, auditStore } from '../../src/store/audit.ts'
import { openDatabase } from '../../src/store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../../src/store/events.ts'
import { keyStore } from '../../src/store/keys.ts'
import { runJournal } from '../../src/store/run-journal.ts'
import { runStore } from '../../src/store/runs.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../../src/store/sandboxes.ts'
import { secretStore } from '../../src/store/secrets.ts'
import { snapshotStore } from '../../src/store/snapshots.ts'
import { jsonLog } from '../../src/telemetry/log.ts'
import { Metrics } from '../../src/telemetry/metrics.ts'
import { FakeClock } from '../../src/testing/fake-clock.ts'
import { FakeProvider } from '../../src/testing/fake-provider.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { FakeWayOut } from './fake-way-out.ts'

export interface FrontOptions {
  readonly rate?: Rate
  readonly living?: number
  readonly slots?: number
  readonly limits?: Partial<ConnectionLimits>
  readonly domains?: readonly string[]
  readonly names?: readonly string[]
  /** Where archives are packed. */
  readonly tmpDir?: string
  /** In place of the routes. */
  readonly control?: Control
}

export class Front implements AsyncDisposable {
  readonly clock = new FakeClock()
  readonly provider: FakeProvider
  readonly log: string[] = []
  readonly metrics = new Metrics()
  readonly wayOut = new FakeWayOut()
  readonly engine: Engine
  readonly keys: Keys
  readonly access: Access = access('a secret of the server')
  readonly codes: OneTimeCodes
  readonly audit: AuditStore
  readonly runs: Runs
  readonly app: Hono
  readonly slots: Slots
  readonly state: DatabaseSync
  readonly #events: DatabaseSync
  #server: Server | undefined

  private constructor(o: FrontOptions) {
    this.state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
    this.#events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
    const { clock, metrics } = this
    const tmpDir = o.tmpDir ?? tmpdir()
    this.provider = new FakeProvider({ clock })
    const random = new SeededRandom(5)
    const log = jsonLog(clock, (line) => this.log.push(line))
    this.audit = auditStore(this.#events)
    this.engine = new Engine({
      sandboxes: sandboxStore(this.state),
      snapshots: snapshotStore(this.state),
      tmpDir,
      events: eventStore(this.#events),
      providers: [this.provider],
      roots: { ensure: async () => ({ root: { kind: 'host' } }) },
      owner: parseOwner('front-test'),
      clock,
      random,
      log,
      audit: this.audit,
      quota: { living: o.living ?? 100 },
      network: {
        wayOut: this.wayOut,
        secrets: secretStore(this.state),
        box: new Box(Buffer.alloc(32, 7), random),
        hostRoots: () => 'roots of the host',
        isSystemBundle: true,
      },
    })
    this.keys = new Keys({ store: keyStore(this.state), clock, random, audit: this.audit })
    this.codes = new OneTimeCodes({ clock, random })
    this.slots = new Slots(o.slots)
    const files = new InputFiles({ directory: join(tmpDir, 'agentpod-build-files'), clock, random })
    this.runs = new Runs({
      engine: this.engine,
      store: runStore(this.state),
      journal: runJournal(this.#events),
      directory: join(tmpDir, 'agentpod-runs'),
      atOnce: 4,
      mostKept: 100,
      clock,
      random,
      log,
    })
    this.app = createApp({
      runs: this.runs,
      builds: {
        builder: new Builder({ engine: this.engine, files, arch: 'x64', clock, log }),
        files,
        toolchains: new Toolchains({
          engine: this.engine,
          fingerprint: () => 'front',
          kept: { get: () => undefined, set: () => undefined },
        }),
        arch: 'x64',
        suite: 'bookworm',
      },
      engine: this.engine,
      keys: this.keys,
      access: this.access,
      codes: this.codes,
      clock,
      domains: o.domains ?? [],
      metrics,
      rate: o.rate ?? DEFAULT_RATE,
      version: '0',
      pid: 1,
      startedAt: 0,
      log,
      random,
      openTcp: async () => assert.fail('no second listener here'),
      tcpAddress: () => undefined,
      stop: () => undefined,
    })
  }

  static async open(o: FrontOptions = {}): Promise<Front> {
    const front = new Front(o)
    await front.engine.open()
    front.runs.open()
    const { engine, keys, codes, clock, slots } = front
    const random = new SeededRandom(6)
    const log = jsonLog(clock, (line) => front.log.push(line))
    const door = tcpDoor({
      engine,
      keys,
      codes,
      access: front.access,
      clock,
      log,
      control: o.control ?? getRequestListener(front.app.fetch),
      domains: ['localhost', ...(o.domains ?? [])],
      names: o.names ?? [],
      rateLimit: new RateLimit(clock, o.rate),
      slots,
    })
    front.#server = await listen({
      door,
      place: { host: '127.0.0.1', port: 0 },
      onActivity: () => undefined,
      trace: tracer({ log, metrics: front.metrics, random }),
      limits: o.limits,
    })
    return front
  }

  get port(): number {
    return this.#server ? portOf(this.#server) : 0
  }

  get server(): Server {
    return this.#server ?? assert.fail('not open')
  }

  /** The secret of a new key. */
  key(scope: 'sandboxes' | 'admin' = 'sandboxes', network?: NetworkCap): string {
    return this.keys.create({ name: 'test', scope, network }).secret
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server) await closeServer(this.#server)
    this.runs.close()
    this.engine.close()
    this.state.close()
    this.#events.close()
  }
}
