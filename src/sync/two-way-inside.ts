/** The project inside a sandbox, as the other side of two-way sync. Whatever comes from there is hostile. */
import { createHash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { Readable } from 'node:stream'
import { isAgentPodError } from '../core/error.ts'
import { type Clock, sleep } from '../util/clock.ts'
import { packContents } from './tar.ts'
import { isGone } from './two-way-decide.ts'
import { Helper, type Program, type Question } from './two-way-helper.ts'
import { literalPattern } from './two-way-script.ts'
import {
  CHANGED,
  type Content,
  type InsideSide,
  type Mark,
  type News,
  NOTHING,
  type Order,
  type Outcome,
} from './two-way-side.ts'

/** The ways into a sandbox that sync needs. All act as the project's user. */
export interface Door {
  start(command: string, args: readonly string[]): Program
  readFile(path: string): Promise<Content>
  writeFile(path: string, content: Buffer | Readable): Promise<void>
  unpack(path: string, tar: Buffer): Promise<void>
  watch(
    path: string,
    o: { readonly signal: AbortSignal; onReady(): void },
  ): AsyncIterable<{ readonly kind: string; readonly name: string }>
}

export interface InsideOptions {
  readonly door: Door
  /** Where the project lies. */
  readonly workspace: string
  /** Directories of it that are not synced. */
  readonly aside: readonly string[]
  readonly clock: Clock
  /** Told each path that is left out because its name is not UTF-8, whenever it is seen. */
  readonly onNotText?: ((path: string) => void) | undefined
}

const MOST_ENTRIES = 500_000
/** Smaller files go together, as one archive of at most this much. */
const SMALL_BYTES = 1024 * 1024
const TOGETHER_BYTES = 16 * 1024 * 1024
const TOGETHER_FILES = 500
const WATCH_AGAIN_MS = 1000
const WATCH_AGAIN_LAST_MS = 30_000

export class Inside implements InsideSide, AsyncDisposable {
  readonly #options: InsideOptions
  readonly #stage: string
  #helper: Promise<Helper> | undefined
  #out: readonly string[]
  #isWatching = false

  constructor(options: InsideOptions) {
    this.#options = options
    // Beside the workspace: what is written there gets its name by renaming, which takes the same file system.
    this.#stage = `${dirname(options.workspace)}/.agentpod-sync`
    this.#out = options.aside
  }

  /** Starts what finds and makes changes inside. `unsupported` where the sandbox lacks the tools. */
  async begin(): Promise<void> {
    this.#helper ??= this.#start()
    await this.#helper
  }

  get isWatching(): boolean {
    return this.#isWatching
  }

  leaveOut(directories: readonly string[]): void {
    this.#out = [...this.#options.aside, ...directories]
  }

  async scan(): Promise<Map<string, Mark>> {
    const patterns = this.#out.flatMap((path) => literalPattern(path) ?? [])
    return this.#marksOf(await this.#ask('scan', patterns.map((pattern) => `${pattern}\n`).join('')))
  }

  async look(paths: readonly string[]): Promise<Map<string, Mark>> {
    if (paths.length === 0) return new Map()
    return this.#marksOf(await this.#ask('look', listed(paths)))
  }

  /** Three fields a path: what it is, its name, where it leads. What is not worded so is left out. */
  #marksOf(fields: readonly string[]): Map<string, Mark> {
    const marks = new Map<string, Mark>()
    for (let i = 0; i + 2 < fields.length && marks.size < MOST_ENTRIES; i += 3) {
      const [stamp = '', name = '', target = ''] = fields.slice(i, i + 3)
      const mark = markOf(stamp, target)
      if (!name.startsWith('./')) continue
      // A name that is not text comes with marks in its place: it is another name.
      if (name.includes('\ufffd')) this.#options.onNotText?.(name.slice(2))
      else if (mark) marks.set(name.slice(2), mark)
    }
    return marks
  }

  async hash(paths: readonly string[]): Promise<Map<string, string>> {
    if (paths.length === 0) return new Map()
    const asked = new Set(paths)
    const hashes = new Map<string, string>()
    for (const field of await this.#ask('hash', listed(paths))) {
      const [, hash = '', path = ''] = /^([0-9a-f]{64}) [ *]\.\/(.*)$/s.exec(field) ?? []
      if (asked.has(path)) hashes.set(path, hash)
    }
    return hashes
  }

  read(path: string): Promise<Content> {
    return this.#options.door.readFile(`${this.#options.workspace}/${path}`)
  }

  async change(orders: readonly Order[]): Promise<Map<string, Outcome>> {
    const outcomes = new Map<string, Outcome>()
    for (const batch of batches(orders)) await this.#carryOut(batch, outcomes)
    return outcomes
  }

  async #carryOut(orders: readonly Order[], outcomes: Map<string, Outcome>): Promise<void> {
    const staged = await this.#stageAll(orders, outcomes)
    const steps = staged.map(({ order, step }) => [
      step.what,
      order.expected.kind === 'absent' || order.expected.kind === 'blocked' ? '' : order.expected.stamp,
      `./${order.path}`,
      step.source,
      step.mode,
    ])
    const byPath = new Map(staged.map(({ order }) => [order.path, order]))
    const fields = await this.#ask('change', steps.flat().map(ended).join(''))
    for (let i = 0; i + 2 < fields.length; i += 3) {
      const [status = '', path = '', said = ''] = fields.slice(i, i + 3)
      const order = byPath.get(path.replace(/^\.\//, ''))
      if (order) outcomes.set(order.path, outcomeOf(status, said, order))
    }
    await this.#ask('clear')
  }

  /** Brings the contents in under other names. A file that changes meanwhile is left for later. */
  async #stageAll(orders: readonly Order[], outcomes: Map<string, Outcome>): Promise<Staged[]> {
    const { door } = this.#options
    const together: Parameters<typeof packContents>[0][number][] = []
    const staged: Staged[] = []
    for (const [i, order] of orders.entries()) {
      const { state } = order
      if (isGone(state)) staged.push({ order, step: { what: 'remove', source: '', mode: '' } })
      if (state.kind === 'link')
        staged.push({ order, step: { what: 'link', source: state.target, mode: '' } })
      if (state.kind !== 'file') continue
      const source = `${this.#stage}/${i}`
      const mode = state.isExecutable ? '755' : ''
      const hash = createHash('sha256')
      const read = await order.content().catch(() => undefined)
      const content = read && watched(read, hash)
      if (content && order.sizeBytes > SMALL_BYTES)
        await door.writeFile(source, Readable.from(content, { objectMode: false }))
      else if (content)
        together.push({ path: String(i), data: await whole(content), isExecutable: state.isExecutable })
      if (hash.digest('hex') === state.hash) staged.push({ order, step: { what: 'file', source, mode } })
      else outcomes.set(order.path, CHANGED)
    }
    if (together.length > 0) await door.unpack(this.#stage, packContents(together))
    return staged
  }

  watch(tell: (news: News) => void): Disposable {
    const over = new AbortController()
    void this.#follow(tell, over.signal)
    return { [Symbol.dispose]: () => over.abort() }
  }

  /** A watch that breaks is begun again; what changed meanwhile is found by a scan. */
  async #follow(tell: (news: News) => void, signal: AbortSignal): Promise<void> {
    let wait = WATCH_AGAIN_MS
    while (!signal.aborted) {
      try {
        await this.#followOnce(tell, signal, () => {
          wait = WATCH_AGAIN_MS
        })
      } catch (error) {
        this.#isWatching = false
        // There are more directories than can be watched: scans have to do.
        if (isAgentPodError(error, 'resource_exhausted')) return
      }
      await sleep(this.#options.clock, wait, signal).catch(() => undefined)
      wait = Math.min(wait * 2, WATCH_AGAIN_LAST_MS)
    }
  }

  async #followOnce(tell: (news: News) => void, signal: AbortSignal, onReady: () => void): Promise<void> {
    const { door, workspace } = this.#options
    const ready = (): void => {
      this.#isWatching = true
      onReady()
      tell('all')
    }
    for await (const { kind, name } of door.watch(workspace, { signal, onReady: ready })) {
      // So it is told that the watched directory itself is gone.
      if (name === basename(workspace) && (kind === 'removed' || kind === 'renamed')) break
      if (!this.#options.aside.some((out) => name === out || name.startsWith(`${out}/`))) tell([name])
    }
    this.#isWatching = false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const helper = await this.#helper?.catch(() => undefined)
    this.#helper = undefined
    await helper?.end()
  }

  async #ask(question: Question, about = ''): Promise<string[]> {
    this.#helper ??= this.#start()
    const helper = this.#helper
    try {
      return await (await helper).ask(question, about)
    } catch (error) {
      // One that failed is not asked again: the next question finds another.
      if (!isAgentPodError(error, 'failed_precondition')) await this[Symbol.asyncDispose]()
      throw error
    }
  }

  async #start(): Promise<Helper> {
    const { door, workspace, clock } = this.#options
    const helper = new Helper((command, args) => door.start(command, args), {
      workspace,
      stage: this.#stage,
      clock,
    })
    await helper.ready()
    return helper
  }
}

interface Staged {
  readonly order: Order
  readonly step: {
    readonly what: 'file' | 'link' | 'remove'
    readonly source: string
    readonly mode: string
  }
}

const KINDS: Readonly<Record<string, 'file' | 'link'>> = { f: 'file', l: 'link' }

function markOf(stamp: string, target: string): Mark | undefined {
  if (stamp === 'absent') return NOTHING
  const [, letter = '', mode = '', size = '', seconds = ''] =
    /^([a-zA-Z]) ([0-7]{1,5}) ([0-9]{1,15}) (-?[0-9]{1,12}\.[0-9]{1,12}) [0-9]{1,20}$/.exec(stamp) ?? []
  if (letter === '') return undefined
  const kind = KINDS[letter]
  if (kind === 'link') return target.includes('\ufffd') ? undefined : { kind, target, stamp }
  if (kind === undefined) return { kind: 'blocked', isDirectory: letter === 'd' }
  return {
    kind,
    sizeBytes: Number(size),
    isExecutable: (Number.parseInt(mode, 8) & 0o100) !== 0,
    modifiedMs: Number(seconds) * 1000,
    stamp,
  }
}

function outcomeOf(status: string, said: string, order: Order): Outcome {
  if (status === 'done') return { status, stamp: undefined, state: order.state }
  if (status === 'changed') return CHANGED
  if (status === 'way')
    return { status: 'failed', why: 'a link or a file stands in its way inside', isInTheWay: true }
  return { status: 'failed', why: `it could not be written inside: ${said.slice(-200).trim()}` }
}

function* batches(orders: readonly Order[]): Generator<Order[]> {
  let batch: Order[] = []
  let size = 0
  for (const order of orders) {
    if (batch.length >= TOGETHER_FILES || (batch.length > 0 && size + order.sizeBytes > TOGETHER_BYTES)) {
      yield batch
      batch = []
      size = 0
    }
    batch.push(order)
    size += order.sizeBytes
  }
  if (batch.length > 0) yield batch
}

function listed(paths: readonly string[]): string {
  return paths.map((path) => ended(`./${path}`)).join('')
}

function ended(field: string): string {
  return `${field}\0`
}

async function* watched(content: Content, hash: ReturnType<typeof createHash>): AsyncGenerator<Buffer> {
  for await (const piece of content) {
    hash.update(piece)
    yield piece
  }
}

/** All of it, or so much that it is clear that it is not small any more. */
async function whole(content: Content): Promise<Buffer> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of content) {
    pieces.push(piece)
    size += piece.length
    if (size > 2 * SMALL_BYTES) break
  }
  return Buffer.concat(pieces)
}
