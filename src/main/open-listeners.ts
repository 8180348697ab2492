/** Opens the API: the routes, the unix socket of the local user and the TCP listener. */
import { getRequestListener } from '@hono/node-server'
import { createApp } from '../api/app.ts'
import { localDoor } from '../api/door/local-door.ts'
import { OneTimeCodes } from '../api/door/one-time-codes.ts'
import { sandboxTokens } from '../api/door/sandbox-tokens.ts'
import { tcpDoor } from '../api/door/tcp-door.ts'
import { e2bDialect } from '../api/e2b/data-plane.ts'
import { listen } from '../api/http/listen.ts'
import { DEFAULT_RATE, RateLimit } from '../api/http/rate-limit.ts'
import { tracer } from '../api/http/trace.ts'
import type { Engine } from '../engine/engine.ts'
import { ExchangeLimit } from '../engine/exchange-limit.ts'
import { Keys } from '../engine/keys.ts'
import type { Runs } from '../runs/runs.ts'
import { keyStore } from '../store/keys.ts'
import type { SandboxStore } from '../store/sandboxes.ts'
import { systemClock } from '../util/clock.ts'
import { systemRandom } from '../util/random.ts'
import { closeServer, TcpListener } from './listeners.ts'
import type { ServerSetup, ServerState } from './server-setup.ts'
import type { StartedTemplates } from './start-templates.ts'
import type { StartedBuilds } from './start-work.ts'

const LOOPBACK = '127.0.0.1'

export interface ListenerParts {
  readonly engine: Engine
  readonly runs: Runs
  readonly builds: StartedBuilds
  readonly templates: StartedTemplates
  /** The Debian release of the `debian` base. */
  readonly suite: string
  onActivity(): void
  /** Stops the server, once the answer is sent. */
  leave(): Promise<void>
}

export async function openListeners(
  setup: ServerSetup,
  stores: ServerState,
  parts: ListenerParts,
): Promise<TcpListener> {
  const { options, home, log, metrics, scope } = setup
  const { engine, onActivity } = parts
  const keys = new Keys({
    store: keyStore(stores.state),
    clock: systemClock,
    random: systemRandom,
    audit: stores.audit,
  })
  const codes = new OneTimeCodes({ clock: systemClock, random: systemRandom })
  const tokens = sandboxTokens(tokenSecret(stores.sandboxes))
  const trace = tracer({ log, metrics, random: systemRandom })
  const rate = options.limits?.rate ?? DEFAULT_RATE
  const app = createApp({
    engine,
    keys,
    tokens,
    clock: systemClock,
    domains: options.domains ?? [],
    codes,
    builds: { ...parts.builds, arch: process.arch, suite: parts.suite },
    templates: parts.templates,
    runs: parts.runs,
    metrics,
    rate,
    version: options.version,
    build: options.build,
    pid: process.pid,
    startedAt: systemClock.now(),
    log,
    random: systemRandom,
    openTcp: (port) => tcp.open({ host: LOOPBACK, port }),
    tcpAddress: () => tcp.address,
    stop: () => setImmediate(() => void parts.leave()),
  })
  const control = getRequestListener(app.fetch)
  const door = tcpDoor({
    engine,
    keys,
    codes,
    tokens,
    dialect: e2bDialect({ engine, tokens, clock: systemClock }),
    log,
    control,
    domains: ['localhost', ...(options.domains ?? [])],
    names: options.names ?? [],
    rateLimit: new RateLimit(systemClock, rate),
    exchanges: new ExchangeLimit(options.limits?.connections),
  })
  const tcp = new TcpListener({ door, onActivity, trace, remembered: rememberedPort(stores.sandboxes) })
  scope.use(tcp)
  const address = { socket: home.socket }
  const local = await listen({ door: localDoor(engine, control, log), address, onActivity, trace })
  scope.defer(() => closeServer(local))
  if (options.tcp) await tcp.open(options.tcp)
  else if (!(await tcp.reopen(LOOPBACK)))
    log.warn('another program uses the TCP port of the earlier server; `agentpod e2b env` prints the new one')
  return tcp
}

function rememberedPort(sandboxes: SandboxStore): { get(): number | undefined; set(port: number): void } {
  return {
    get: () => Number(sandboxes.meta('tcp-port')) || undefined,
    set: (port) => sandboxes.setMeta('tcp-port', String(port)),
  }
}

/** The secret that access tokens are derived from. Made once, kept with the state. */
function tokenSecret(sandboxes: SandboxStore): string {
  const known = sandboxes.meta('secret')
  if (known) return known
  const made = Buffer.from(systemRandom.bytes(32)).toString('hex')
  sandboxes.setMeta('secret', made)
  return made
}
