/** The composition root of the server: the one place that names concrete parts together. */
import { readdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { access } from '../api/access.ts'
import { createApp } from '../api/app.ts'
import { localDoor } from '../api/data-plane.ts'
import { insideOf } from '../api/e2b/inside.ts'
import { listen } from '../api/listen.ts'
import { OneTimeCodes } from '../api/one-time-codes.ts'
import { DEFAULT_RATE, type Rate, RateLimit } from '../api/rate-limit.ts'
import { Slots } from '../api/slots.ts'
import { tcpDoor } from '../api/tcp-door.ts'
import { tracer } from '../api/trace.ts'
import { LayerRoots } from '../bases/roots.ts'
import { Builder } from '../build/builder.ts'
import { InputFiles } from '../build/input-files.ts'
import { Toolchains } from '../build/toolchains.ts'
import { homeAt } from '../core/home.ts'
import type { OwnerLabel } from '../core/id.ts'
import type { Provider } from '../core/provider.ts'
import { parseUpstreamProxy } from '../egress/upstream-proxy.ts'
import { Engine } from '../engine/engine.ts'
import { Keys } from '../engine/keys.ts'
import { DEFAULT_QUOTA } from '../engine/quota.ts'
import { crun } from '../providers/crun/provider.ts'
import { dockerProvider } from '../providers/docker/provider.ts'
import { Podhost } from '../providers/local/podhost.ts'
import { Runs } from '../runs/runs.ts'
import { openBox } from '../secrets/box.ts'
import { auditStore } from '../store/audit.ts'
import { eventStore } from '../store/events.ts'
import { keyStore } from '../store/keys.ts'
import { runJournal } from '../store/run-journal.ts'
import { runStore } from '../store/runs.ts'
import { type SandboxStore, sandboxStore } from '../store/sandboxes.ts'
import { secretStore } from '../store/secrets.ts'
import { snapshotStore } from '../store/snapshots.ts'
import { ignore, jsonLog, type Log } from '../telemetry/log.ts'
import { Metrics } from '../telemetry/metrics.ts'
import { systemClock } from '../util/clock.ts'
import { armFailpoint } from '../util/failpoint.ts'
import { makeDirectory } from '../util/make-directory.ts'
import { systemRandom } from '../util/random.ts'
import { EgressProcess } from './egress-process.ts'
import { hostRoots } from './host-roots.ts'
import { hostFingerprint } from './host-tools.ts'
import { closeServer, type TcpAddress, TcpListener, type TcpOptions } from './listeners.ts'
import { openEvents, openState, ownerOf } from './open-state.ts'
import { guardProcess } from './process-guard.ts'
import { lockServer } from './server-lock.ts'

export interface ServerOptions {
  readonly home: string
  readonly version: string
  /** Undefined where the sources themselves are run. */
  readonly build?: string | undefined
  readonly programs: { readonly podhost: string; readonly podd: string; readonly egress: string }
  /** Leave after this long with no living sandbox and no request; 0 stays. */
  readonly idleExitMs: number
  readonly tcp?: TcpOptions | undefined
  /** Domains whose subdomains are sandboxes, besides localhost. */
  readonly domains?: readonly string[] | undefined
  /** Further names that the API goes by. */
  readonly names?: readonly string[] | undefined
  readonly limits?: ServerLimits | undefined
  /** A company's HTTP proxy that the way out goes through; it then resolves and checks addresses. */
  readonly upstreamProxy?: string | undefined
  /** A bundle of certificates that this machine trusts, where it is not at the usual place. */
  readonly trustFile?: string | undefined
  /** Further providers, beside the one on this machine. */
  readonly providers?: readonly ProviderFactory[] | undefined
  /** The one that is taken where nobody names one; the one on this machine when left out. */
  readonly defaultProvider?: string | undefined
  /** How many blank shells wait for sandboxes. */
  readonly shells?: number | undefined
  writeLog(line: string): void
}

/** What a provider is given by the server it is put into. */
export interface ProviderParts {
  /** The state directory. */
  readonly home: string
  /** The program that is to run inside a sandbox. */
  readonly podd: string
  /** On everything that the provider makes for this server. */
  readonly owner: OwnerLabel
  readonly log: Log
}

export type ProviderFactory = (parts: ProviderParts) => Provider

/** What one key may take; everything left out has a default. */
export interface ServerLimits {
  /** Control-plane requests. */
  readonly rate?: Rate | undefined
  /** Living sandboxes. */
  readonly living?: number | undefined
  /** Connections into its sandboxes at one time. */
  readonly connections?: number | undefined
  /** Agents at work at one time, of all keys together; the others wait. */
  readonly runs?: number | undefined
  /** Stopped sandboxes of ended runs, kept for follow-ups. */
  readonly keptRuns?: number | undefined
}

const DEFAULT_KEPT_RUNS = 100

const DEFAULT_SHELLS = 4

/** Agents mostly wait for their models; what they start in between is what counts. */
function runsAtOnce(): number {
  return Math.max(4, availableParallelism() * 4)
}

const LOOPBACK = '127.0.0.1'

export interface RunningServer {
  /** Where it listens besides the unix socket. */
  readonly tcp: TcpAddress | undefined
  /** Resolves when the server has left, by request or by itself. */
  readonly done: Promise<void>
  stop(): Promise<void>
}

const IDLE_CHECK_MS = 5000

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  armFailpoint(process.env['AGENTPOD_FAILPOINT'] ?? '')
  const clock = systemClock
  const home = homeAt(options.home)
  for (const directory of [home.root, home.run, home.logs, home.tmp]) makeDirectory(directory, 0o700)
  const log = jsonLog(clock, options.writeLog)
  const scope = new AsyncDisposableStack()
  try {
    const lock = lockServer(home, { pid: process.pid, version: options.version, build: options.build })
    scope.defer(() => lock.release())
    clearExchange(home.tmp)
    const state = openState(home)
    scope.defer(() => state.close())
    const events = openEvents(home)
    scope.defer(() => events.close())
    const sandboxes = sandboxStore(state)
    const secrets = secretStore(state)
    const audit = auditStore(events)
    const metrics = new Metrics()
    const createSeconds = metrics.histogram(
      'agentpod_create_seconds',
      'Time to create a sandbox, by outcome.',
      CREATE_SECONDS,
    )
    const podhost = new Podhost({
      home: home.root,
      ...options.programs,
      shells: options.shells ?? DEFAULT_SHELLS,
    })
    scope.defer(() => podhost.close())
    // What is wrong with it is said here, and not in the log of a process that does not start.
    if (options.upstreamProxy !== undefined) parseUpstreamProxy(options.upstreamProxy)
    const wayOut = new EgressProcess({
      socket: home.egressSocket,
      script: options.programs.egress,
      logFile: home.egressLog,
      relays: home.run,
      upstreamProxy: options.upstreamProxy,
      cacheDirectory: home.packageCache,
      log,
      clock,
      onRecords: (records) => {
        for (const { verdict, count } of records) decisions.add({ verdict }, count)
        engine.networks.note(records)
      },
      onUsage: (records) => engine.networks.noteUsage(records),
    })
    scope.defer(() => wayOut.disconnect())
    const roots = new LayerRoots({
      tmpDir: home.tmp,
      logFile: home.debianLog,
      isRoot: process.getuid?.() === 0,
      arch: process.arch,
      env: process.env,
      built: { get: (key) => sandboxes.meta(key), set: (key, digest) => sandboxes.setMeta(key, digest) },
    })
    const owner = ownerOf(home, sandboxes)
    const decisions = metrics.counter('agentpod_network_decisions', 'What the way out decided, by verdict.')
    const engine = new Engine({
      sandboxes,
      snapshots: snapshotStore(state),
      tmpDir: home.tmp,
      events: eventStore(events),
      providers: [
        crun(podhost, home.tmp),
        dockerProvider({ env: process.env, poddFile: options.programs.podd, owner }),
        ...(options.providers ?? []).map((open) =>
          open({ home: home.root, podd: options.programs.podd, owner, log }),
        ),
      ],
      defaultProvider: options.defaultProvider,
      roots,
      owner,
      clock,
      random: systemRandom,
      log,
      audit,
      quota: { living: options.limits?.living ?? DEFAULT_QUOTA.living },
      network: {
        wayOut,
        secrets,
        box: openBox(home.secretsKey, systemRandom, () => secrets.hasAny()),
        ...hostRoots(options.trustFile),
      },
      addedInside: insideOf,
      onCreated: (seconds, outcome) => createSeconds.observe({ outcome }, seconds),
    })
    await engine.open()
    await wayOut
      .adopt()
      .catch((error) => ignore(log, error, 'an egress process of an earlier life did not answer'))
    scope.defer(() => engine.close())
    describeProcess(metrics, engine)
    const files = new InputFiles({ directory: home.buildFiles, clock, random: systemRandom })
    const builder = new Builder({ engine, files, arch: process.arch, clock, log })
    await builder.open()
    const runs = new Runs({
      engine,
      store: runStore(state),
      journal: runJournal(events),
      directory: home.runs,
      atOnce: options.limits?.runs ?? runsAtOnce(),
      mostKept: options.limits?.keptRuns ?? DEFAULT_KEPT_RUNS,
      clock,
      random: systemRandom,
      log,
    })
    runs.open()
    scope.defer(() => runs.close())

    const finished = Promise.withResolvers<void>()
    let lastActivity = clock.now()
    let stopping: Promise<void> | undefined
    const stop = (): Promise<void> => {
      stopping ??= scope.disposeAsync().then(finished.resolve, finished.reject)
      return stopping
    }
    /** With nothing left to watch, podhost goes too. */
    const leave = async (): Promise<void> => {
      runs.close()
      engine.close()
      if (engine.busyCount === 0) {
        await Promise.allSettled([podhost.leave({ timeoutMs: 2000 }), wayOut.leave()])
      }
      await stop()
    }
    const onActivity = (): void => {
      lastActivity = clock.now()
    }
    const keys = new Keys({ store: keyStore(state), clock, random: systemRandom, audit })
    const rate = options.limits?.rate ?? DEFAULT_RATE
    const trace = tracer({ log, metrics, random: systemRandom })
    const codes = new OneTimeCodes({ clock, random: systemRandom })
    const tokens = access(secretOf(sandboxes))
    const app = createApp({
      engine,
      keys,
      access: tokens,
      clock,
      domains: options.domains ?? [],
      codes,
      builds: {
        builder,
        files,
        arch: process.arch,
        suite: roots.suite,
        toolchains: new Toolchains({
          engine,
          fingerprint: () => hostFingerprint(process.env),
          kept: {
            get: () => sandboxes.meta('host-tools'),
            set: (text) => sandboxes.setMeta('host-tools', text),
          },
        }),
      },
      runs,
      metrics,
      rate,
      version: options.version,
      build: options.build,
      pid: process.pid,
      startedAt: clock.now(),
      log,
      random: systemRandom,
      openTcp: (port) => tcp.open({ host: LOOPBACK, port }),
      tcpAddress: () => tcp.address,
      stop: () => setImmediate(() => void leave()),
    })
    const control = getRequestListener(app.fetch)
    const tcp = new TcpListener(
      tcpDoor({
        engine,
        keys,
        codes,
        access: tokens,
        clock,
        log,
        control,
        domains: ['localhost', ...(options.domains ?? [])],
        names: options.names ?? [],
        rateLimit: new RateLimit(clock, rate),
        slots: new Slots(options.limits?.connections),
      }),
      onActivity,
      trace,
      {
        get: () => Number(sandboxes.meta('tcp-port')) || undefined,
        set: (port) => sandboxes.setMeta('tcp-port', String(port)),
      },
    )
    scope.use(tcp)
    const local = await listen({
      door: localDoor(engine, control, log),
      place: { socket: home.socket },
      onActivity,
      trace,
    })
    scope.defer(() => closeServer(local))
    if (options.tcp) await tcp.open(options.tcp)
    else if (!(await tcp.reopen(LOOPBACK)))
      log.warn('another program has the port of earlier lives; `agentpod e2b env` tells the new one')

    const watchIdle = (): void => {
      // Whoever was given the address of a port cannot start the server again, as the CLI can.
      const isBusy = engine.busyCount > 0 || runs.busyCount > 0 || tcp.isInUse
      if (isBusy) lastActivity = clock.now()
      if (options.idleExitMs > 0 && clock.now() - lastActivity >= options.idleExitMs) {
        log.info('leaving: nothing runs and nobody asks')
        void leave()
        return
      }
      clock.after(IDLE_CHECK_MS, watchIdle)
    }
    clock.after(IDLE_CHECK_MS, watchIdle)
    scope.use(guardProcess({ log, stop }))
    log.info('serving', { pid: process.pid, living: engine.livingCount })
    return { done: finished.promise, stop, tcp: tcp.address }
  } catch (error) {
    await scope.disposeAsync()
    throw error
  }
}

/** Files on their way to or from podhost when the last server was killed. */
function clearExchange(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (name.startsWith('snapshot-')) rmSync(join(directory, name), { force: true })
  }
}

const CREATE_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

function describeProcess(metrics: Metrics, engine: Engine): void {
  metrics.gauge('agentpod_sandboxes', 'Living sandboxes, by state.', () =>
    [...engine.livingByState()].map(([state, count]) => [{ state }, count] as const),
  )
  metrics.gauge('agentpod_resident_memory_bytes', 'Memory of the server.', () => [
    [{}, process.memoryUsage.rss()],
  ])
  metrics.gauge('agentpod_uptime_seconds', 'Since the process began.', () => [[{}, process.uptime()]])
}

/** What tokens are derived from: made once, kept with the state. */
function secretOf(sandboxes: SandboxStore): string {
  const known = sandboxes.meta('secret')
  if (known) return known
  const made = Buffer.from(systemRandom.bytes(32)).toString('hex')
  sandboxes.setMeta('secret', made)
  return made
}
