/** From a name that may be reached to addresses, of which none is trusted yet. */
import { promises as dns } from 'node:dns'
import type { HostName } from '../policy/host-name.ts'
import type { Clock } from '../util/clock.ts'
import { withTimeout } from '../util/deadline.ts'
import { hostsFile } from './hosts-file.ts'
import { denied, failed } from './refusal.ts'
import { Turns } from './turns.ts'

/** Texts of addresses in the order to try them; empty where the name has none. The asker stands for a sandbox: between them it is fair. */
export type Resolve = (host: HostName, signal: AbortSignal, asker: object) => Promise<readonly string[]>

const KEPT_MS = 10_000
const MOST_KEPT = 1024
/** libuv runs getaddrinfo on half of its threads, of which the egress process has 64; files are read on them too. */
const MOST_UNDER_WAY = 24
/** Of one sandbox. */
const MOST_AT_ONCE = 4
const MOST_WAITING = 256
const WITHIN_MS = 5000
const NO_SUCH_NAME: readonly string[] = ['ENOTFOUND', 'ENODATA', 'EAI_NODATA', 'EAI_NONAME']

/**
 * The system's own way, which knows about company networks. A name with a dot is asked for as it stands: the final dot keeps the resolver from trying it
 * below the search domains, and from the hosts file too, so that is read here.
 */
export function systemResolve(clock: Clock): Resolve {
  const inHosts = hostsFile()
  const kept = new Map<HostName, { readonly addresses: readonly string[]; readonly until: number }>()
  const underWay = new Map<HostName, Promise<readonly string[]>>()
  const turns = new Turns({ places: MOST_UNDER_WAY })
  const find = async (host: HostName): Promise<readonly string[]> => {
    const addresses = await ask(host.includes('.') ? `${host}.` : host)
    if (addresses.length > 0) {
      if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value ?? host)
      kept.set(host, { addresses, until: clock.now() + KEPT_MS })
    }
    return addresses
  }
  const known = (host: HostName): Promise<readonly string[]> | undefined => {
    const found = kept.get(host)
    if (found && found.until > clock.now()) return Promise.resolve(found.addresses)
    kept.delete(host)
    return underWay.get(host)
  }
  return async (host, _, asker) => {
    const found = known(host)
    if (found) return found
    const own = await inHosts(host)
    if (own.length > 0) return own
    const leave = await turns.enter(asker)
    try {
      // Another sandbox's lookup is shared once it runs, and not while it waits: its place in the queue is its own.
      const running = known(host) ?? find(host).finally(() => underWay.delete(host))
      underWay.set(host, running)
      return await running
    } finally {
      leave()
    }
  }
}

async function ask(name: string): Promise<string[]> {
  try {
    const answers = await dns.lookup(name, { all: true, verbatim: true })
    return answers.map(({ address }) => address)
  } catch (error) {
    if (NO_SUCH_NAME.includes(String((error as NodeJS.ErrnoException).code))) return []
    throw error
  }
}

/** A sandbox's share of the resolver: so many at once, each for so long. */
export class Lookups {
  readonly #resolve: Resolve
  readonly #waiting = new Set<() => void>()
  #underWay = 0

  constructor(resolve: Resolve) {
    this.#resolve = resolve
  }

  /** Throws what there is to say to the program that asked. The time that it waits is part of the time that it has. */
  async addresses(host: HostName, signal: AbortSignal): Promise<readonly string[]> {
    const late = (): Error => failed('dns.slow', `the address of ${host} was not found in time`, 'try again')
    try {
      const found = await withTimeout(WITHIN_MS, signal, (joined) => this.#ask(host, joined), late)
      if (found.length > 0) return found
    } catch (error) {
      const { reason } = error as { reason?: unknown }
      if (signal.aborted || reason === 'dns.slow' || reason === 'cap.lookups') throw error
      throw failed('dns.failed', `the address of ${host} could not be found`, 'try again')
    }
    throw failed('dns.unknown', `${host} has no address`, 'check how the name is spelled')
  }

  /** The place is given back when the resolver is done, which may be long after the caller has given up. */
  async #ask(host: HostName, signal: AbortSignal): Promise<readonly string[]> {
    await this.#enter(signal)
    try {
      return await this.#resolve(host, signal, this)
    } finally {
      this.#leave()
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    if (this.#underWay < MOST_AT_ONCE) {
      this.#underWay++
      return
    }
    if (this.#waiting.size >= MOST_WAITING)
      throw denied('cap.lookups', 'this sandbox asks for too many names at once', 'ask for fewer at a time')
    await new Promise<void>((resolve, reject) => {
      this.#waiting.add(resolve)
      const giveUp = (): void => {
        if (this.#waiting.delete(resolve)) reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
    })
  }

  /** A place goes from hand to hand while somebody waits for one. */
  #leave(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#underWay--
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
