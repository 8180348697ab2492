/** The way out of every sandbox, put together: links, what they share, and the process around them. */
import type { Socket } from 'node:net'
import { AgentPodError } from '../core/error.ts'
import type { NetCounts, NetRecord } from '../core/network.ts'
import { type Clock, systemClock } from '../util/clock.ts'
import { receive } from './arrival.ts'
import type { LinkSpec } from './control.ts'
import { type Controlled, ControlServer } from './control-server.ts'
import { type Dial, dialAddress } from './dial.ts'
import { HttpEngine } from './http-engine.ts'
import type { Hooks } from './http-hooks.ts'
import type { Interceptor } from './interceptor.ts'
import { Link, type LinkParts } from './link.ts'
import type { Log } from './log.ts'
import { type OwnAddresses, systemAddresses } from './own-address.ts'
import { type CachePlace, PackageCache } from './package-cache.ts'
import { Park, type TakeLine } from './park.ts'
import { refusal } from './refusal.ts'
import { type Resolve, systemResolve } from './resolve.ts'
import { parseUpstreamProxy } from './upstream-proxy.ts'
import type { DeliverUsage } from './usage-records.ts'

export interface EgressOptions {
  readonly log: Log
  readonly clock?: Clock | undefined
  readonly interceptor?: Interceptor | undefined
  readonly hooks?: Hooks | undefined
  /** `http://host:port` of a proxy that everything goes through. */
  readonly upstreamProxy?: string | undefined
  /** Authorities that servers may have their certificates from besides the system's, as PEM. */
  readonly trusted?: readonly string[] | undefined
  readonly resolve?: Resolve | undefined
  readonly dial?: Dial | undefined
  readonly ownAddresses?: OwnAddresses | undefined
  /** Left out, nothing is kept, whatever links say. */
  readonly packages?: PackageCache | undefined
  /** Takes records; false where nobody is there to. */
  readonly deliver?: ((records: readonly NetRecord[]) => boolean) | undefined
  readonly deliverUsage?: DeliverUsage | undefined
}

interface Opened {
  readonly link: Link
  readonly socket: string
  readonly park: Park
}

/** Connections that are refused for want of room are answered all the same, up to so many at once. */
const MOST_OVERFULL = 64
const OVERFULL = refusal(
  429,
  'cap.connections',
  'this sandbox has or makes too many connections',
  'close some, and make new ones more slowly',
)

export class Egress implements Controlled {
  readonly #parts: LinkParts
  readonly #http: HttpEngine
  readonly #interceptor: Interceptor | undefined
  readonly #links = new Map<string, Opened>()
  readonly #onChange: () => void
  #overfull = 0

  constructor(options: EgressOptions, onChange: () => void = () => undefined) {
    const { log, clock = systemClock, hooks, upstreamProxy, trusted, packages } = options
    this.#http = new HttpEngine({ log, hooks })
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

  /** Whether a sandbox is there that could use it. */
  get isNeeded(): boolean {
    return [...this.#links.values()].some(({ park, link }) => park.isReachable || link.cap.open > 0)
  }

  get links(): readonly string[] {
    return [...this.#links.keys()]
  }

  /** Makes a link, or replaces what is said about it; what it has open and may not have any more is cut before this returns. */
  open(spec: LinkSpec): void {
    const known = this.#links.get(spec.sandbox)
    const link = known?.link ?? new Link(spec, this.#parts)
    if (known) link.update(spec)
    if (known?.socket === spec.socket) return
    known?.park.close()
    const onTaken = (socket: Socket): TakeLine | undefined => this.#take(link, socket)
    const park = new Park({ path: spec.socket, clock: this.#parts.clock, onTaken })
    this.#links.set(spec.sandbox, { link, socket: spec.socket, park })
    this.#onChange()
  }

  close(sandbox: string): void {
    const known = this.#links.get(sandbox)
    this.#links.delete(sandbox)
    known?.park.close()
    known?.link.close()
    this.#onChange()
  }

  counts(sandbox: string): NetCounts {
    const known = this.#links.get(sandbox)
    // Whoever asks has been told everything that was decided until now.
    known?.link.records.flush()
    known?.link.usage.flush()
    if (known) return known.link.counts
    throw new AgentPodError({ code: 'not_found', reason: 'egress.link', message: 'there is no such link' })
  }

  /** Says at once what has been kept while nobody listened. */
  greet(): void {
    for (const { link } of this.#links.values()) {
      link.records.flush()
      link.usage.flush()
    }
  }

  closeAll(): void {
    for (const sandbox of this.links) this.close(sandbox)
  }

  /** SECURITY: CP-16. What podd has begun to use is counted before it says what for. */
  #take(link: Link, stream: Socket): TakeLine | undefined {
    if (link.signal.aborted) return undefined
    const isIn = link.cap.enter()
    if (!isIn && this.#overfull >= MOST_OVERFULL) return undefined
    if (!isIn) this.#overfull++
    link.connected()
    const release = link.add({ mayGoOn: () => true, cut: () => stream.destroy(), settle: () => undefined })
    stream.once('close', () => {
      release()
      if (isIn) link.cap.leave()
      else this.#overfull--
    })
    const arrival = { stream, link, ...(!isIn && { overfull: OVERFULL }) }
    return (line) => {
      const parts = { http: this.#http, interceptor: this.#interceptor }
      receive(arrival, line, parts).catch((error) => {
        this.#parts.log.error('a connection was dropped', { error })
        stream.destroy()
      })
    }
  }
}

export interface StartOptions extends Omit<EgressOptions, 'deliver' | 'deliverUsage' | 'packages'> {
  readonly socketPath: string
  readonly version: string
  /** Where packages are kept. */
  readonly cache?: CachePlace | undefined
}

export interface StartedEgress {
  /** Resolves when it has left, told to or by itself. */
  readonly done: Promise<void>
  stop(): Promise<void>
}

const ALONE_MS = 60_000

/** Listens, and leaves when for a minute there was neither a server nor a sandbox that can be dialled. */
export async function startEgress(options: StartOptions): Promise<StartedEgress> {
  const { socketPath: path, version, log, clock = systemClock, cache } = options
  const packages = cache && new PackageCache({ ...cache, log, clock })
  let cancelLeave: (() => void) | undefined
  const { promise: done, resolve: leave } = Promise.withResolvers<void>()
  const isIdle = (): boolean => !control.isServed && !egress.isNeeded
  const look = (): void => {
    cancelLeave?.()
    if (control.isServed) return
    // Sandboxes may end while no server is there to say so; each look is a minute after the last.
    cancelLeave = clock.after(ALONE_MS, () => (isIdle() ? void stop() : look()))
  }
  const deliver = (records: readonly NetRecord[]): boolean => control.push('records', records)
  const deliverUsage: DeliverUsage = (records) => control.push('usage', records)
  const egress = new Egress({ ...options, packages, deliver, deliverUsage }, look)
  const stop = async (): Promise<void> => {
    cancelLeave?.()
    egress.closeAll()
    cancelLeave?.()
    await control.close()
    leave()
  }
  const control = new ControlServer({
    path,
    version,
    log,
    controlled: egress,
    onShutdown: () => void stop(),
    onAlone: look,
  })
  await control.listen()
  // Only whoever listens is the process that others' unfinished files are no longer of.
  void packages?.sweep()
  look()
  return { done, stop }
}
