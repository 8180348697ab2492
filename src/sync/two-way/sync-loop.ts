/** When two-way sync runs: soon after a side reports changes, and a full scan from time to time. */
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import { type Clock, sleep } from '../../util/clock.ts'
import type { ChangeNotice, Side } from './side.ts'
import { type SyncOptions, TwoWaySync } from './two-way-sync.ts'

/** Changes come in bursts: a round waits for a pause of this length, up to a limit. */
const PAUSE_MS = 100
const LONGEST_PAUSE_MS = 500
/** Interval of full scans, whatever was reported. */
const SCAN_MS = 30_000
/** The interval for a side that cannot report changes. Scans that take long run less often. */
const BLIND_SCAN_MS = 1000
const REST_PER_SCAN = 5
/** Delay before a path that changed during a round is checked again. */
const AGAIN_MS = 200
/** After a scan, the next one waits as long as the scan took, up to this limit. */
const LONGEST_REST_MS = 5000
const RETRY_MS = 1000
const LAST_RETRY_MS = 30_000
/** More reported paths than this count as `all`. */
const MOST_PATHS = 5000
const LAST_ROUNDS = 5

export interface RunningSync {
  /** Resolves with the reason if the sync ends because of a failure. */
  readonly ended: Promise<AgentPodError>
  /** Runs a last full round and ends. If it throws, some changes may exist only in the sandbox. */
  finish(): Promise<void>
}

export interface SyncLoopOptions extends SyncOptions {
  readonly clock: Clock
}

export function startSync(o: SyncLoopOptions): RunningSync {
  return new SyncLoop(o)
}

class SyncLoop implements RunningSync {
  readonly #options: SyncLoopOptions
  readonly #sync: TwoWaySync
  readonly #ended = Promise.withResolvers<AgentPodError>()
  readonly #over = new AbortController()
  readonly #host: Pending
  readonly #inside: Pending
  readonly #watches: readonly Disposable[]
  readonly #running: Promise<void>
  #wake: () => void = () => undefined
  #newestAt = 0
  #restUntil = 0
  #retryMs = RETRY_MS
  #said = ''

  constructor(o: SyncLoopOptions) {
    this.#options = o
    this.#sync = new TwoWaySync(o)
    this.#host = new Pending(o.host)
    this.#inside = new Pending(o.inside)
    this.#watches = [
      o.host.watch((news) => this.#hear(this.#host, news)),
      o.inside.watch((news) => this.#hear(this.#inside, news)),
    ]
    this.#running = this.#run()
  }

  get ended(): Promise<AgentPodError> {
    return this.#ended.promise
  }

  async finish(): Promise<void> {
    this.#stop()
    await this.#running
    for (let round = 0; round < LAST_ROUNDS; round++) {
      const { host, inside } = await this.#sync.settle('all', 'all')
      if (host.length === 0 && inside.length === 0) break
      await sleep(this.#options.clock, AGAIN_MS)
    }
    if (this.#sync.unsaved.length > 0) throw unsaved(this.#sync.unsaved)
  }

  #stop(): void {
    this.#over.abort()
    for (const watch of this.#watches) watch[Symbol.dispose]()
    this.#wake()
  }

  #hear(side: Pending, news: ChangeNotice): void {
    this.#newestAt = this.#options.clock.now()
    side.add(news, this.#newestAt)
    this.#wake()
  }

  async #run(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const wait = this.#dueAt(this.#options.clock.now()) - this.#options.clock.now()
      if (wait > 0) await this.#sleep(wait)
      else await this.#round()
    }
  }

  /** After a pause in the notices, or when a scan is due; a scan waits longer after one that took long. */
  #dueAt(now: number): number {
    const paths = this.#afterPause(Math.min(this.#host.pathsSince, this.#inside.pathsSince), now)
    const scans = this.#afterPause(Math.min(this.#host.scanSince, this.#inside.scanSince), now)
    return Math.min(paths, Math.max(scans, this.#restUntil))
  }

  #afterPause(since: number, now: number): number {
    return since > now ? since : Math.min(this.#newestAt + PAUSE_MS, since + LONGEST_PAUSE_MS)
  }

  async #round(): Promise<void> {
    const { clock } = this.#options
    const began = clock.now()
    const mayScan = began >= this.#restUntil
    const news = { host: this.#host.take(began, mayScan), inside: this.#inside.take(began, mayScan) }
    try {
      const again = await this.#sync.settle(news.host, news.inside)
      const now = clock.now()
      const took = now - began
      if (news.host === 'all' || news.inside === 'all')
        this.#restUntil = now + Math.min(took, LONGEST_REST_MS)
      if (news.host === 'all') this.#host.scanned(now, took)
      if (news.inside === 'all') this.#inside.scanned(now, took)
      this.#host.add(again.host, now + AGAIN_MS)
      this.#inside.add(again.inside, now + AGAIN_MS)
      this.#retryMs = RETRY_MS
      this.#said = ''
    } catch (error) {
      await this.#fail(asAgentPodError(error))
    }
  }

  /** After a failed round the next one scans everything, so that nothing is lost. */
  async #fail(error: AgentPodError): Promise<void> {
    if (this.#over.signal.aborted) return
    if (isLast(error)) {
      this.#stop()
      this.#ended.resolve(error)
      return
    }
    if (this.#said !== error.message) this.#options.say(error.message)
    this.#said = error.message
    await sleep(this.#options.clock, this.#retryMs, this.#over.signal).catch(() => undefined)
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS)
    this.#host.add('all', 0)
    this.#inside.add('all', 0)
  }

  /** Until the time is over or a change is reported. */
  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}

const NEVER = Number.POSITIVE_INFINITY

/** What one side reported and was not processed yet. At the start that is everything. */
class Pending {
  readonly #side: Side
  readonly #paths = new Set<string>()
  #pathsSince = NEVER
  #scanSince = 0

  constructor(side: Side) {
    this.#side = side
  }

  /** Time from which single paths are to be processed. */
  get pathsSince(): number {
    return this.#pathsSince
  }

  /** Time from which a scan is due. */
  get scanSince(): number {
    return this.#scanSince
  }

  add(news: ChangeNotice, since: number): void {
    if (news === 'all' || this.#paths.size + news.length > MOST_PATHS) {
      this.#scanSince = Math.min(this.#scanSince, since)
      if (news !== 'all') this.#paths.clear()
    } else if (news.length > 0) {
      this.#pathsSince = Math.min(this.#pathsSince, since)
      for (const path of news) this.#paths.add(path)
    }
  }

  /** A scan compares metadata only, so reported paths are kept and are read after it. */
  take(now: number, mayScan: boolean): ChangeNotice {
    if (mayScan && this.#scanSince <= now) {
      this.#scanSince = NEVER
      return 'all'
    }
    const news = [...this.#paths]
    this.#paths.clear()
    this.#pathsSince = NEVER
    return news
  }

  scanned(now: number, tookMs: number): void {
    const every = this.#side.isWatching ? SCAN_MS : BLIND_SCAN_MS
    this.#scanSince = Math.min(this.#scanSince, now + Math.max(every, tookMs * REST_PER_SCAN))
  }
}

/** Failures after which sync cannot continue. */
function isLast(error: AgentPodError): boolean {
  if (error.code === 'unsupported' || error.reason === 'sync.too_much') return true
  return (error.code === 'not_found' || error.code === 'conflict') && error.reason.startsWith('sandbox')
}

function unsaved(paths: readonly string[]): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'sync.unsaved',
    message: `${paths.length} changed files could not be saved on this machine: ${paths.slice(0, 5).join(', ')}`,
  })
}
