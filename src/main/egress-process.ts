/**
 * Runs the egress process: starts it when a sandbox needs it, restarts it when it dies, and sends it all
 * links before anything passes. It outlives the server, and the next server finds it. A sandbox that may
 * reach nothing needs it when a program inside connects for the first time.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
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
import { AwaitedConnection } from './awaited-connection.ts'
import { EgressRelay } from './egress-relay.ts'

export interface EgressProcessOptions {
  readonly socket: string
  /** The script that Node runs. */
  readonly script: string
  readonly logFile: string
  /** The directory for sockets of sandboxes on other machines. */
  readonly relays: string
  /** The server's socket for connections between members of groups. */
  readonly memberSocket: string
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
/** How long the first connection of a sandbox waits for the process. */
const FIRST_CONNECTION_MS = 10_000
/** How long the process stays after the last sandbox. */
const STAYS_MS = 60_000

/** The first connection of a sandbox, until the process takes it. */
interface HeldConnection {
  readonly socket: Socket
  isTaken: boolean
  /** Where the process dials it. */
  relay?: EgressRelay
}

export class EgressProcess implements EgressLinks {
  readonly #options: EgressProcessOptions
  readonly #wanted = new Map<string, LinkSpec>()
  /** For sandboxes on other machines. */
  readonly #relays = new Map<string, EgressRelay>()
  /** Of sandboxes that need no process yet. */
  readonly #awaited = new Map<string, AwaitedConnection>()
  /** First connections that the process has yet to take, by sandbox. */
  readonly #held = new Map<string, HeldConnection>()
  #client: LineClient | undefined
  #isStarting = false
  #attempt: Promise<void> | undefined
  #isClosed = false
  #cancel = (): void => undefined
  #cancelStop = (): void => undefined

  constructor(options: EgressProcessOptions) {
    this.#options = options
  }

  open(rules: LinkRules, door: EgressDoor): void {
    const spec = {
      ...rules,
      socket: this.#socketOf(rules.sandbox, door),
      ...(rules.policy.members && { memberSocket: this.#options.memberSocket }),
    }
    this.#wanted.set(spec.sandbox, spec)
    this.#cancelStop()
    if (this.#client) this.#openNow(this.#client, spec)
    else if (door.kind === 'socket' && mayReachNothing(rules) && !this.#isStarting) this.#await(spec)
    else this.#connectSoon(START_AFTER_MS)
  }

  close(sandbox: string): void {
    if (this.#wanted.delete(sandbox)) this.#tell('close', { sandbox })
    this.#relays.get(sandbox)?.close()
    this.#relays.delete(sandbox)
    this.#awaited.get(sandbox)?.close()
    this.#awaited.delete(sandbox)
    this.#held.get(sandbox)?.socket.destroy()
    if (this.#wanted.size === 0 && this.#client) this.#stopLater(this.#client)
  }

  /** Waits for the first program that connects, in place of the process. */
  #await({ sandbox, socket: path }: LinkSpec): void {
    const known = this.#awaited.get(sandbox)
    if (this.#isClosed || known?.path === path || this.#held.has(sandbox)) return
    known?.close()
    const onUsed = (socket: Socket): void => {
      const held: HeldConnection = { socket, isTaken: false }
      this.#awaited.delete(sandbox)
      this.#held.set(sandbox, held)
      const cancel = this.#options.clock.after(FIRST_CONNECTION_MS, () => {
        if (!held.isTaken) socket.destroy()
      })
      socket.once('close', () => {
        cancel()
        held.relay?.close()
        if (this.#held.get(sandbox) === held) this.#held.delete(sandbox)
      })
      if (this.#client) this.#carry(this.#client)
      else this.#connectSoon(0)
    }
    this.#awaited.set(sandbox, new AwaitedConnection({ path, clock: this.#options.clock, onUsed }))
  }

  /**
   * Passes first connections to the process, which judges and answers them as any other. The server carries
   * their bytes, so they would end with it; but a sandbox that may reach nothing only gets refusals.
   */
  #carry(client: LineClient): void {
    for (const [sandbox, held] of this.#held) {
      const { socket } = held
      this.#held.delete(sandbox)
      const relay = new EgressRelay({
        path: join(this.#options.relays, `${sandbox}.first.sock`),
        dial: async () => {
          if (held.isTaken) throw gone()
          held.isTaken = true
          return socket
        },
        log: this.#options.log,
      })
      held.relay = relay
      this.#call(client, 'carry', { sandbox, socket: relay.path }).catch((error) => {
        ignore(this.#options.log, error, 'the egress process did not take a connection')
        socket.destroy()
      })
    }
  }

  /** A process that no sandbox needs costs memory. */
  #stopLater(client: LineClient): void {
    this.#cancelStop()
    this.#cancelStop = this.#options.clock.after(STAYS_MS, () => {
      if (this.#wanted.size > 0 || this.#isClosed || this.#client !== client) return
      // A link that is opened from here on is for the next process.
      this.#client = undefined
      this.#shutDown(client)
    })
  }

  #shutDown(client: LineClient): Promise<unknown> {
    return this.#call(client, 'shutdown', {}).catch((error) =>
      ignore(this.#options.log, error, 'the egress process did not answer; it exits on its own'),
    )
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
    else if (!this.#isClosed) await this.#startForLater()
    this.#isClosed = true
    this.#cancel()
    this.#cancelStop()
    this.#client?.close()
    for (const one of [...this.#relays.values(), ...this.#awaited.values()]) one.close()
    for (const { socket } of this.#held.values()) socket.destroy()
  }

  /** While no server runs, nobody else would answer the sandboxes that have not needed it yet. */
  async #startForLater(): Promise<void> {
    if (this.#client || this.#isStarting) return
    await this.#connect().catch((error) =>
      ignore(this.#options.log, error, 'the egress process did not start before the server ended'),
    )
  }

  /** Ends it; for when no sandbox needs it. */
  async leave(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#cancel()
    this.#cancelStop()
    await this.#attempt
    if (this.#client) await this.#shutDown(this.#client)
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
    // From here on the process waits itself.
    for (const one of this.#awaited.values()) one.close()
    this.#awaited.clear()
    this.#carry(client)
    if (this.#wanted.size === 0) this.#stopLater(client)
  }

  async #start(): Promise<NonNullable<Awaited<ReturnType<typeof connectSocket>>>> {
    const { script, socket, logFile, clock } = this.#options
    const log = openSync(logFile, 'a', 0o600)
    // SECURITY: CP-22. SIGUSR1 would open Node's inspector to every user of this machine.
    const words = ['--disable-sigusr1', ...LEAN_FLAGS, script, socket, ...flags(this.#options)]
    const child = spawn(process.execPath, words, {
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

/** Whether every connection of a sandbox is refused, whatever its destination. */
function mayReachNothing({ policy, secrets }: LinkRules): boolean {
  const { allowed = [], named = [] } = policy.addresses ?? {}
  const lists = [policy.rules, policy.members ?? [], secrets, allowed, named]
  return policy.mode !== 'open' && lists.every((list) => list.length === 0)
}

/**
 * Node would let the heap of new objects grow to 48 MiB, most of it garbage. With 3 MiB, the smallest size,
 * opening TLS took more processor time on a busy machine; 12 MiB was not measured.
 */
const LEAN_FLAGS = ['--max-semi-space-size=4']

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
