/** The egress service: all sandboxes with their connections, and the process around them. */
import type { Socket } from 'node:net'
import { AgentPodError } from '../core/error.ts'
import type { NetCounts, NetRecord } from '../core/network.ts'
import type { Log } from '../telemetry/log.ts'
import { type Clock, systemClock } from '../util/clock.ts'
import type { LinkSpec } from './control/link-spec.ts'
import { type Controlled, ControlServer } from './control/server.ts'
import { type EgressParts, SandboxEgress } from './decide/sandbox-egress.ts'
import { HttpEngine } from './http/engine.ts'
import type { TransformRequest } from './http/request-transform.ts'
import { receiveConnection } from './listen/arrival.ts'
import { type OnHeaderLine, PoddConnectionPool } from './listen/podd-connections.ts'
import { type CacheLocation, PackageCache } from './packages/cache.ts'
import { type Dial, dialAddress } from './reach/dial.ts'
import { type OwnAddresses, systemAddresses } from './reach/own-address.ts'
import { type Resolve, systemResolve } from './reach/resolve.ts'
import { parseUpstreamProxy } from './reach/upstream-proxy.ts'
import type { DeliverUsage } from './record/usage-records.ts'
import { newRefusal } from './refusal.ts'
import { applySecrets } from './secrets/transform.ts'
import type { Interceptor } from './tls/interceptor.ts'

export interface EgressServiceOptions {
  /** SECURITY: LK-16. Fields of log lines never contain a header, a body or a secret. */
  readonly log: Log
  readonly clock?: Clock | undefined
  readonly interceptor?: Interceptor | undefined
  /** Replaced in tests. */
  readonly transformRequest?: TransformRequest | undefined
  /** `http://host:port` of a proxy that all connections go through. */
  readonly upstreamProxy?: string | undefined
  /** Certificate authorities that are trusted in addition to Node's, as PEM. */
  readonly trusted?: readonly string[] | undefined
  readonly resolve?: Resolve | undefined
  readonly dial?: Dial | undefined
  readonly ownAddresses?: OwnAddresses | undefined
  /** If absent, no packages are cached, whatever the sandboxes allow. */
  readonly packages?: PackageCache | undefined
  /** Delivers records to the server; false if no server is connected. */
  readonly deliver?: ((records: readonly NetRecord[]) => boolean) | undefined
  readonly deliverUsage?: DeliverUsage | undefined
}

interface OpenedSandbox {
  readonly sandbox: SandboxEgress
  readonly socket: string
  readonly pool: PoddConnectionPool
}

/** A connection over the limit gets an answer, up to this many at once; further ones are closed. */
const MOST_OVER_LIMIT = 64
const OVER_LIMIT = newRefusal(
  429,
  'cap.connections',
  'this sandbox has too many open connections, or opens them too fast',
  'close some connections, or open new ones more slowly',
)

export class EgressService implements Controlled {
  readonly #parts: EgressParts
  readonly #http: HttpEngine
  readonly #interceptor: Interceptor | undefined
  readonly #sandboxes = new Map<string, OpenedSandbox>()
  readonly #onChange: () => void
  #overLimit = 0

  constructor(options: EgressServiceOptions, onChange: () => void = () => undefined) {
    const { log, clock = systemClock, upstreamProxy, trusted, packages } = options
    this.#http = new HttpEngine(log, options.transformRequest ?? applySecrets)
    this.#interceptor = options.interceptor
    this.#onChange = onChange
    this.#parts = {
      clock,
      log,
      trusted,
      packages,
      resolve: options.resolve ?? systemResolve(clock),
      dial: options.dial ?? dialAddress,
      ownAddresses: options.ownAddresses ?? systemAddresses(clock),
      upstreamProxy: upstreamProxy === undefined ? undefined : parseUpstreamProxy(upstreamProxy),
      deliver: options.deliver ?? (() => true),
      deliverUsage: options.deliverUsage ?? (() => true),
    }
  }

  /** Whether a sandbox is running that could use the process. */
  get isNeeded(): boolean {
    return [...this.#sandboxes.values()].some(
      ({ pool, sandbox }) => pool.isReachable || sandbox.connectionLimit.open > 0,
    )
  }

  get links(): readonly string[] {
    return [...this.#sandboxes.keys()]
  }

  /** Adds a sandbox or updates it. Connections that the new policy refuses are cut before this returns. */
  open(spec: LinkSpec): void {
    const known = this.#sandboxes.get(spec.sandbox)
    const sandbox = known?.sandbox ?? new SandboxEgress(spec, this.#parts)
    if (known) sandbox.update(spec)
    if (known?.socket === spec.socket) return
    known?.pool.close()
    const onUsed = (socket: Socket): OnHeaderLine | undefined => this.#admit(sandbox, socket)
    const pool = new PoddConnectionPool({ path: spec.socket, clock: this.#parts.clock, onUsed })
    this.#sandboxes.set(spec.sandbox, { sandbox, socket: spec.socket, pool })
    this.#onChange()
  }

  close(id: string): void {
    const known = this.#sandboxes.get(id)
    this.#sandboxes.delete(id)
    known?.pool.close()
    known?.sandbox.close()
    this.#onChange()
  }

  counts(id: string): NetCounts {
    const known = this.#sandboxes.get(id)
    // The server receives all records up to now before the counts.
    known?.sandbox.records.flush()
    known?.sandbox.usage.flush()
    if (known) return known.sandbox.counts
    throw noSuchLink()
  }

  carry(id: string, socket: string): void {
    const known = this.#sandboxes.get(id)
    if (!known) throw noSuchLink()
    known.pool.carry(socket)
  }

  /** Delivers the records that were kept while no server was connected. */
  greet(): void {
    for (const { sandbox } of this.#sandboxes.values()) {
      sandbox.records.flush()
      sandbox.usage.flush()
    }
  }

  closeAll(): void {
    for (const id of this.links) this.close(id)
  }

  /** SECURITY: CP-16. A connection counts from its first byte, before podd has named its destination. */
  #admit(sandbox: SandboxEgress, stream: Socket): OnHeaderLine | undefined {
    if (sandbox.signal.aborted) return undefined
    const isIn = sandbox.connectionLimit.enter()
    if (!isIn && this.#overLimit >= MOST_OVER_LIMIT) return undefined
    if (!isIn) this.#overLimit++
    sandbox.connected()
    const release = sandbox.add({
      mayContinue: () => true,
      cut: () => stream.destroy(),
      recordTraffic: () => undefined,
    })
    stream.once('close', () => {
      release()
      if (isIn) sandbox.connectionLimit.leave()
      else this.#overLimit--
    })
    return (line) => {
      // Only now: the line before this is read from the socket itself.
      const paced = sandbox.bandwidthLimit?.over(stream) ?? stream
      const arrival = { stream: paced, sandbox, ...(!isIn && { overLimit: OVER_LIMIT }) }
      const parts = { http: this.#http, interceptor: this.#interceptor }
      receiveConnection(arrival, line, parts).catch((error) => {
        this.#parts.log.error('dropped a connection after an internal error', { error })
        stream.destroy()
      })
    }
  }
}

function noSuchLink(): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'egress.link',
    message: 'the egress process has no such sandbox',
  })
}

export interface StartEgressOptions
  extends Omit<EgressServiceOptions, 'deliver' | 'deliverUsage' | 'packages'> {
  readonly socketPath: string
  readonly version: string
  /** The directory of the package cache. */
  readonly cache?: CacheLocation | undefined
}

export interface StartedEgress {
  /** Resolves when the service has stopped, by a request or because it was idle. */
  readonly done: Promise<void>
  stop(): Promise<void>
}

const IDLE_EXIT_MS = 60_000

/** Listens for a server. Stops after a minute without a server and without a reachable sandbox. */
export async function startEgress(options: StartEgressOptions): Promise<StartedEgress> {
  const { socketPath: path, version, log, clock = systemClock, cache } = options
  const packages = cache && new PackageCache({ ...cache, log, clock })
  let cancelExit: (() => void) | undefined
  const { promise: done, resolve: finish } = Promise.withResolvers<void>()
  const isIdle = (): boolean => !control.isServed && !egress.isNeeded
  const scheduleExit = (): void => {
    cancelExit?.()
    if (control.isServed) return
    // Sandboxes may end while no server is connected, so this is checked every minute.
    cancelExit = clock.after(IDLE_EXIT_MS, () => (isIdle() ? void stop() : scheduleExit()))
  }
  const deliver = (records: readonly NetRecord[]): boolean => control.push('records', records)
  const deliverUsage: DeliverUsage = (records) => control.push('usage', records)
  const egress = new EgressService({ ...options, packages, deliver, deliverUsage }, scheduleExit)
  const stop = async (): Promise<void> => {
    cancelExit?.()
    egress.closeAll()
    cancelExit?.()
    await control.close()
    finish()
  }
  const control = new ControlServer({
    path,
    version,
    log,
    controlled: egress,
    onShutdown: () => void stop(),
    onAlone: scheduleExit,
  })
  await control.listen()
  // Only the process that listens may remove unfinished files of earlier processes.
  void packages?.sweep()
  scheduleExit()
  return { done, stop }
}
