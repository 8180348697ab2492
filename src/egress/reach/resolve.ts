/** Resolves an allowed name to addresses, which are checked later. */
import { promises as dns } from 'node:dns'
import type { HostName } from '../../policy/host-name.ts'
import type { Clock } from '../../util/clock.ts'
import { withTimeout } from '../../util/deadline.ts'
import { denied, failed } from '../refusal.ts'
import { FairSemaphore } from './fair-semaphore.ts'
import { hostsFile } from './hosts-file.ts'

/**
 * Addresses as text, in the order to try them; empty if there are none. `asker` identifies a sandbox, for
 * fairness.
 */
export type Resolve = (host: HostName, signal: AbortSignal, asker: object) => Promise<readonly string[]>

const KEPT_MS = 10_000
const MOST_KEPT = 1024
/** libuv uses half of its threads for getaddrinfo, and the egress process has 64, which also read files. */
const MOST_UNDER_WAY = 24
/** For each sandbox. */
const MOST_AT_ONCE = 4
const MOST_WAITING = 256
const WITHIN_MS = 5000
const NO_SUCH_NAME: readonly string[] = ['ENOTFOUND', 'ENODATA', 'EAI_NODATA', 'EAI_NONAME']

/**
 * Uses the resolver of the system, which knows company networks. A final dot is added to a name with a dot,
 * so that the resolver does not try search domains. It then also skips the hosts file, so that is read here.
 */
export function systemResolve(clock: Clock): Resolve {
  const inHosts = hostsFile()
  const kept = new Map<HostName, { readonly addresses: readonly string[]; readonly until: number }>()
  const underWay = new Map<HostName, Promise<readonly string[]>>()
  const semaphore = new FairSemaphore({ places: MOST_UNDER_WAY })
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
    const release = await semaphore.acquire(asker)
    try {
      // A running lookup of another sandbox is shared; a waiting one is not, because it keeps its place in
      // the queue.
      const running = known(host) ?? find(host).finally(() => underWay.delete(host))
      underWay.set(host, running)
      return await running
    } finally {
      release()
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

/** The share of one sandbox in the resolver: limits the number of lookups and the time of each. */
export class Lookups {
  readonly #resolve: Resolve
  readonly #waiting = new Set<() => void>()
  #underWay = 0

  constructor(resolve: Resolve) {
    this.#resolve = resolve
  }

  /** Throws the error to report to the client. Time spent in the queue counts towards the timeout. */
  async addresses(host: HostName, signal: AbortSignal): Promise<readonly string[]> {
    const late = (): Error => failed('dns.slow', `looking up ${host} timed out`, 'try again')
    try {
      const found = await withTimeout(WITHIN_MS, signal, (joined) => this.#ask(host, joined), late)
      if (found.length > 0) return found
    } catch (error) {
      const { reason } = error as { reason?: unknown }
      if (signal.aborted || reason === 'dns.slow' || reason === 'cap.lookups') throw error
      throw failed('dns.failed', `looking up ${host} failed`, 'try again')
    }
    throw failed('dns.unknown', `${host} has no address`, 'check the spelling of the name')
  }

  /** The place is released when the resolver is done, which may be long after the caller gave up. */
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
      throw denied('cap.lookups', 'this sandbox looks up too many names at once', 'look up fewer at a time')
    await new Promise<void>((resolve, reject) => {
      this.#waiting.add(resolve)
      const giveUp = (): void => {
        if (this.#waiting.delete(resolve)) reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
    })
  }

  /** Passes the place to the next lookup that waits. */
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
