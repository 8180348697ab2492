/** The front end of a server on fakes: routes, doors, a TCP listener on loopback. No sandbox is real. */

import assert from 'node:assert/strict'
import type { Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'
import { createApp } from '../../src/api/app.ts'
import type { ControlPlane } from '../../src/api/door/front-door.ts'
import { OneTimeCodes } from '../../src/api/door/one-time-codes.ts'
import { type SandboxTokens, sandboxTokens } from '../../src/api/door/sandbox-tokens.ts'
import { tcpDoor } from '../../src/api/door/tcp-door.ts'
import { e2bDialect } from '../../src/api/e2b/data-plane.ts'
import { type ConnectionLimits, listen, portOf } from '../../src/api/http/listen.ts'
import { DEFAULT_RATE, type Rate, RateLimit } from '../../src/api/http/rate-limit.ts'
import { tracer } from '../../src/api/http/trace.ts'
import { Builder } from '../../src/build/builder.ts'
import { InputFiles } from '../../src/build/input-files.ts'
import { Toolchains } from '../../src/build/toolchains.ts'
import type { NetworkCap } from '../../src/core/network.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Provider } from '../../src/core/provider.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { ExchangeLimit } from '../../src/engine/exchange-limit.ts'
import { Keys } from '../../src/engine/keys.ts'
import { EngineFixture } from '../../src/engine/testing/engine-fixture.ts'
import { closeServer } from '../../src/main/listeners.ts'
import { Runs } from '../../src/runs/runs.ts'
import { SealedBox } from '../../src/secrets/sealed-box.ts'
import { type AuditStore, auditStore } from '../../src/store/audit.ts'
import { keyStore } from '../../src/store/keys.ts'
import { runJournal } from '../../src/store/run-journal.ts'
import { runStore } from '../../src/store/runs.ts'
import { secretStore } from '../../src/store/secrets.ts'
import { jsonLog } from '../../src/telemetry/log.ts'
import { Metrics } from '../../src/telemetry/metrics.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { FakeEgress } from './fake-egress.ts'

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
  readonly control?: ControlPlane
  /** Further providers; the default one is `front.provider`. */
  readonly providers?: readonly Provider[]
}

export class Front implements AsyncDisposable {
  readonly #fixture = new EngineFixture()
  readonly clock = this.#fixture.clock
  readonly provider = this.#fixture.provider
  readonly log: string[] = []
  readonly metrics = new Metrics()
  readonly egress = new FakeEgress()
  readonly engine: Engine
  readonly keys: Keys
  readonly tokens: SandboxTokens = sandboxTokens('a secret of the server')
  readonly codes: OneTimeCodes
  readonly audit: AuditStore
  readonly runs: Runs
  readonly app: Hono
  readonly slots: ExchangeLimit
  readonly state = this.#fixture.state
  #server: Server | undefined

  private constructor(o: FrontOptions) {
    const { clock, metrics } = this
    const tmpDir = o.tmpDir ?? tmpdir()
    const random = new SeededRandom(5)
    const log = jsonLog(clock, (line) => this.log.push(line))
    this.audit = auditStore(this.#fixture.events)
    this.engine = this.#fixture.make({
      tmpDir,
      random,
      log,
      audit: this.audit,
      quota: { living: o.living ?? 100 },
      providers: [this.provider, ...(o.providers ?? [])],
      leastIsolation: (owner) => keyStore(this.state).isolationOf(owner),
      network: {
        egress: this.egress,
        secrets: secretStore(this.state),
        box: new SealedBox(Buffer.alloc(32, 7), random),
        hostRoots: () => 'roots of the host',
        isSystemBundle: true,
      },
    })
    this.keys = new Keys({ store: keyStore(this.state), clock, random, audit: this.audit })
    this.codes = new OneTimeCodes({ clock, random })
    this.slots = new ExchangeLimit(o.slots)
    const files = new InputFiles({ directory: join(tmpDir, 'agentpod-build-files'), clock, random })
    this.runs = new Runs({
      engine: this.engine,
      store: runStore(this.state),
      journal: runJournal(this.#fixture.events),
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
        presets: { get: async () => ({ rules: [], variables: {}, files: [] }) },
      },
      engine: this.engine,
      keys: this.keys,
      tokens: this.tokens,
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
      tokens: front.tokens,
      dialect: e2bDialect({ engine, tokens: front.tokens, clock }),
      log,
      control: o.control ?? getRequestListener(front.app.fetch),
      domains: ['localhost', ...(o.domains ?? [])],
      names: o.names ?? [],
      rateLimit: new RateLimit(clock, o.rate),
      exchanges: slots,
    })
    front.#server = await listen({
      door,
      address: { host: '127.0.0.1', port: 0 },
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
    return this.keys.create({ name: 'test', scope, network }, LOCAL).secret
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server) await closeServer(this.#server)
    this.runs.close()
    this.engine.close()
    this.#fixture[Symbol.dispose]()
  }
}
