/**
 * Runs the egress process: starts it when a sandbox needs it, restarts it when it dies, and sends it all
 * links before anything passes. It outlives the server, and the next server finds it.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError } from '../core/error.ts'
import type { NetCounts, NetRecord, UsageRecord } from '../core/network.ts'
import type { EgressDoor } from '../core/provider.ts'
import type { LinkSpec } from '../egress/control/link-spec.ts'
import type { EgressLinks, LinkRules } from '../engine/network/network-parts.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { raceAbort } from '../util/deadline.ts'
import { connectSocket, LineClient } from '../util/stream/line-client.ts'
import { EgressRelay } from './egress-relay.ts'

export interface EgressProcessOptions {
  readonly socket: string
  /** The script that Node runs. */
  readonly script: string
  readonly logFile: string
  /** The directory for sockets of sandboxes on other machines. */
  readonly relays: string
  readonly upstreamProxy?: string | undefined
  /** The package cache for links that use it; without it nothing is cached. */
  readonly cacheDirectory?: string | undefined
  /** Ten GiB if left out. */
  readonly cacheLimitBytes?: number | undefined
  readonly log: Log
  readonly clock: Clock
  onRecords(records: readonly NetRecord[]): void
  onUsage(records: readonly UsageRecord[]): void
}

/** Delays the start, because a new sandbox needs the processors first. */
const START_AFTER_MS = 100
const LISTENS_WITHIN_MS = 10_000
const ASK_EVERY_MS = 10
const FIRST_RETRY_MS = 50
const LAST_RETRY_MS = 1000
const CALL_MS = 5000

export class EgressProcess implements EgressLinks {
  readonly #options: EgressProcessOptions
  readonly #wanted = new Map<string, LinkSpec>()
  /** For sandboxes on other machines. */
  readonly #relays = new Map<string, EgressRelay>()
  #client: LineClient | undefined
  #isStarting = false
  #attempt: Promise<void> | undefined
  #isClosed = false
  #cancel = (): void => undefined

  constructor(options: EgressProcessOptions) {
    this.#options = options
  }

  open(rules: LinkRules, door: EgressDoor): void {
    const spec = { ...rules, socket: this.#socketOf(rules.sandbox, door) }
    this.#wanted.set(spec.sandbox, spec)
    if (this.#client) this.#openNow(this.#client, spec)
    else this.#connectSoon(START_AFTER_MS)
  }

  close(sandbox: string): void {
    if (this.#wanted.delete(sandbox)) this.#tell('close', { sandbox })
    this.#relays.get(sandbox)?.close()
    this.#relays.delete(sandbox)
  }

  /** The socket that the egress process dials. */
  #socketOf(sandbox: string, door: EgressDoor): string {
    if (door.kind === 'socket') return door.path
    const known = this.#relays.get(sandbox)
    if (known) return known.path
    const path = join(this.#options.relays, `${sandbox}.sock`)
    const relay = new EgressRelay({ path, dial: (o) => door.dial(o), log: this.#options.log })
    this.#relays.set(sandbox, relay)
    return path
  }

  async counts(sandbox: string): Promise<NetCounts | undefined> {
    if (!this.#client || !this.#wanted.has(sandbox)) return undefined
    try {
      const answer = await this.#call(this.#client, 'counts', { sandbox })
      return answer as unknown as NetCounts
    } catch (error) {
      ignore(this.#options.log, error, 'the egress process did not return counts')
      return undefined
    }
  }

  /**
   * Connects to the process that an earlier server left, to store its decisions and to close links that
   * should not exist.
   */
  async adopt(): Promise<void> {
    const socket = await connectSocket(this.#options.socket)
    if (socket) await this.#joined(socket)
  }

  /** Leaves it running if a sandbox needs it: connections do not end with the server. */
  async disconnect(): Promise<void> {
    if (this.#wanted.size === 0) await this.leave()
    this.#isClosed = true
    this.#cancel()
    this.#client?.close()
    for (const relay of this.#relays.values()) relay.close()
  }

  /** Ends it; for when no sandbox needs it. */
  async leave(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#cancel()
    await this.#attempt
    const client = this.#client
    if (!client) return
    await this.#call(client, 'shutdown', {}).catch((error) =>
      ignore(this.#options.log, error, 'the egress process did not answer; it exits on its own'),
    )
  }

  #connectSoon(afterMs: number): void {
    if (this.#isStarting || this.#isClosed || this.#client) return
    this.#isStarting = true
    const attempt = async (waitMs: number): Promise<void> => {
      try {
        await this.#connect()
        this.#isStarting = false
      } catch (error) {
        ignore(this.#options.log, error, 'the egress process is not ready yet')
        const nextMs = Math.min(waitMs * 2, LAST_RETRY_MS)
        if (this.#isClosed) return
        this.#cancel = this.#options.clock.after(waitMs, () => begin(nextMs))
      }
    }
    const begin = (waitMs: number): void => {
      this.#attempt = attempt(waitMs)
    }
    this.#cancel = this.#options.clock.after(afterMs, () => begin(FIRST_RETRY_MS))
  }

  async #connect(): Promise<void> {
    if (this.#client) return
    const socket = (await connectSocket(this.#options.socket)) ?? (await this.#start())
    await this.#joined(socket)
  }

  async #joined(socket: NonNullable<Awaited<ReturnType<typeof connectSocket>>>): Promise<void> {
    const client = new LineClient(socket, {
      onEvent: (event) => {
        if (event['event'] === 'records') this.#options.onRecords(event['records'] as NetRecord[])
        if (event['event'] === 'usage') this.#options.onUsage(event['records'] as UsageRecord[])
      },
      onGone: () => {
        if (this.#client === client) this.#client = undefined
        if (this.#wanted.size > 0) this.#connectSoon(0)
      },
      toError: (value) => new AgentPodError(value as ConstructorParameters<typeof AgentPodError>[0]),
      gone,
    })
    const { links } = await this.#call(client, 'hello', {})
    // INVARIANT: nothing is awaited from here to the end, so no link that is opened meanwhile is missed.
    this.#client = client
    for (const link of links as string[]) if (!this.#wanted.has(link)) this.#tell('close', { sandbox: link })
    for (const spec of this.#wanted.values()) this.#openNow(client, spec)
  }

  async #start(): Promise<NonNullable<Awaited<ReturnType<typeof connectSocket>>>> {
    const { script, socket, logFile, clock } = this.#options
    const log = openSync(logFile, 'a', 0o600)
    // SECURITY: CP-22. SIGUSR1 would open Node's inspector to every user of this machine.
    const child = spawn(process.execPath, ['--disable-sigusr1', script, socket, ...flags(this.#options)], {
      detached: true,
      stdio: ['ignore', log, log],
      cwd: '/',
      env: environment(process.env),
    })
    closeSync(log)
    child.unref()
    let failure: Error | undefined
    child.once('error', (error) => {
      failure = error
    })
    for (const end = clock.now() + LISTENS_WITHIN_MS; clock.now() < end && !failure; ) {
      const connected = await connectSocket(socket)
      if (connected) return connected
      await new Promise<void>((resolve) => clock.after(ASK_EVERY_MS, resolve))
    }
    throw failure ?? gone()
  }

  /**
   * SECURITY: I7. If new rules are not accepted, the link is closed, so that no older rules stay in force.
   */
  #openNow(client: LineClient, spec: LinkSpec): void {
    this.#call(client, 'open', spec).catch((error) => {
      ignore(this.#options.log, error, `closed the egress link of ${spec.sandbox}`)
      if (this.#client === client && this.#wanted.get(spec.sandbox) === spec) this.close(spec.sandbox)
    })
  }

  #tell(op: string, args: object): void {
    if (!this.#client) return
    this.#call(this.#client, op, args).catch((error) =>
      ignore(this.#options.log, error, `the egress process did not ${op}`),
    )
  }

  #call(client: LineClient, op: string, args: object): Promise<Record<string, unknown>> {
    return raceAbort(client.call(op, args), AbortSignal.timeout(CALL_MS))
  }
}

function flags({ upstreamProxy, cacheDirectory, cacheLimitBytes }: EgressProcessOptions): string[] {
  return Object.entries({
    'upstream-proxy': upstreamProxy,
    cache: cacheDirectory,
    'cache-limit': cacheLimitBytes,
  }).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]))
}

/**
 * The variables that the process inherits. SECURITY: others, such as one that disables certificate checks,
 * are not passed on.
 */
const PASSED_ON = ['HOME', 'LANG', 'NODE_EXTRA_CA_CERTS', 'PATH', 'SSL_CERT_FILE', 'TZ']

function environment(own: NodeJS.ProcessEnv): Record<string, string> {
  const passed = PASSED_ON.flatMap((name) => (own[name] === undefined ? [] : [[name, own[name]] as const]))
  // DNS lookups use up to half of Node's thread pool.
  return { ...Object.fromEntries(passed), UV_THREADPOOL_SIZE: '64' }
}

function gone(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'egress.gone',
    message: 'the egress process does not answer',
  })
}
