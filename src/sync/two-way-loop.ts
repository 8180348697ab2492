/** When two-way sync looks: soon after a side tells of changes, and now and then at everything. */
import { AgentPodError, asAgentPodError } from '../core/error.ts'
import { type Clock, sleep } from '../util/clock.ts'
import { type SyncOptions, TwoWay } from './two-way.ts'
import type { News, Side } from './two-way-side.ts'

/** Changes come in bursts: a look waits for a pause this long, but not for ever. */
const PAUSE_MS = 100
const LONGEST_PAUSE_MS = 500
/** Everything is looked at this often, whatever was told. */
const SCAN_MS = 30_000
/** Where a side cannot tell of changes. A scan that takes long comes less often. */
const BLIND_SCAN_MS = 1000
const REST_PER_SCAN = 5
/** What changed while it was looked at is looked at again. */
const AGAIN_MS = 200
/** Between scans there is a rest as long as a scan took. */
const LONGEST_REST_MS = 5000
const RETRY_MS = 1000
const LAST_RETRY_MS = 30_000
/** Past this many paths, all of them are meant. */
const MOST_PATHS = 5000
const LAST_ROUNDS = 5

export interface RunningSync {
  /** Resolves when it ended by itself, with the reason. */
  readonly ended: Promise<AgentPodError>
  /** Looks at everything once more, and ends. Throws where that look failed: then something may be inside alone. */
  finish(): Promise<void>
}

export interface LoopOptions extends SyncOptions {
  readonly clock: Clock
}

export function startSync(o: LoopOptions): RunningSync {
  return new SyncLoop(o)
}

class SyncLoop implements RunningSync {
  readonly #options: LoopOptions
  readonly #sync: TwoWay
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

  constructor(o: LoopOptions) {
    this.#options = o
    this.#sync = new TwoWay(o)
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

  #hear(side: Pending, news: News): void {
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

  /** After a pause in the news, or when a scan is due; a scan waits longer after one that took long. */
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

  /** Nothing is forgotten by a round that failed: the next one looks at everything. */
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

  /** Until the time is over or something is heard. */
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

/** What one side told of and was not looked at yet. At first that is everything. */
class Pending {
  readonly #side: Side
  readonly #paths = new Set<string>()
  #pathsSince = NEVER
  #scanSince = 0

  constructor(side: Side) {
    this.#side = side
  }

  /** From when on single paths are to be looked at. */
  get pathsSince(): number {
    return this.#pathsSince
  }

  /** From when on everything is. */
  get scanSince(): number {
    return this.#scanSince
  }

  add(news: News, since: number): void {
    if (news === 'all' || this.#paths.size + news.length > MOST_PATHS) {
      this.#scanSince = Math.min(this.#scanSince, since)
      if (news !== 'all') this.#paths.clear()
    } else if (news.length > 0) {
      this.#pathsSince = Math.min(this.#pathsSince, since)
      for (const path of news) this.#paths.add(path)
    }
  }

  /** A scan goes by what files look like; those that were told of stay, to be read after it. */
  take(now: number, mayScan: boolean): News {
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

/** Failures after which there is nothing left to sync with. */
function isLast(error: AgentPodError): boolean {
  if (error.code === 'unsupported' || error.reason === 'sync.too_much') return true
  return (error.code === 'not_found' || error.code === 'conflict') && error.reason.startsWith('sandbox')
}

function unsaved(paths: readonly string[]): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'sync.unsaved',
    message: `${paths.length} changed files could not be written here: ${paths.slice(0, 5).join(', ')}`,
  })
}
