/**
 * The project in a sandbox, as the other side of two-way sync. Everything that comes from there is hostile.
 */
import { createHash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { Readable } from 'node:stream'
import { isAgentPodError } from '../../core/error.ts'
import { type Clock, sleep } from '../../util/clock.ts'
import { packContents } from '../tar.ts'
import { isAbsent } from './decide-path.ts'
import { HelperConnection, type HelperProcess, type HelperRequest } from './helper-connection.ts'
import { literalPattern } from './helper-script.ts'
import {
  ABSENT_STAT,
  ALREADY_CHANGED,
  type ChangeNotice,
  type ChangeOrder,
  type ChangeOutcome,
  type ContentStream,
  type PathStat,
  type SandboxSide,
} from './side.ts'

/** The operations on a sandbox that sync needs. All of them act as the project's user. */
export interface SandboxAccess {
  start(command: string, args: readonly string[]): HelperProcess
  readFile(path: string): Promise<ContentStream>
  writeFile(path: string, content: Buffer | Readable): Promise<void>
  unpack(path: string, tar: Buffer): Promise<void>
  watch(
    path: string,
    o: { readonly signal: AbortSignal; onReady(): void },
  ): AsyncIterable<{ readonly kind: string; readonly name: string }>
}

export interface SandboxDirectoryOptions {
  readonly access: SandboxAccess
  /** Path of the project in the sandbox. */
  readonly workspace: string
  /** Directories that are not synced, relative to the project. */
  readonly unsynced: readonly string[]
  readonly clock: Clock
  /** Called for each path that is skipped because its name is not UTF-8, each time it is seen. */
  readonly onNotText?: ((path: string) => void) | undefined
}

const MOST_ENTRIES = 500_000
/** Smaller files are sent together, in archives of at most the size below. */
const SMALL_BYTES = 1024 * 1024
const TOGETHER_BYTES = 16 * 1024 * 1024
const TOGETHER_FILES = 500
const WATCH_AGAIN_MS = 1000
const WATCH_AGAIN_LAST_MS = 30_000

export class SandboxDirectory implements SandboxSide, AsyncDisposable {
  readonly #options: SandboxDirectoryOptions
  readonly #stage: string
  #helper: Promise<HelperConnection> | undefined
  #out: readonly string[]
  #isWatching = false

  constructor(options: SandboxDirectoryOptions) {
    this.#options = options
    // Beside the workspace: files are renamed from there into place, which needs the same file system.
    this.#stage = `${dirname(options.workspace)}/.agentpod-sync`
    this.#out = options.unsynced
  }

  /** Starts the helper in the sandbox. `unsupported` if the sandbox lacks the tools. */
  async begin(): Promise<void> {
    this.#helper ??= this.#start()
    await this.#helper
  }

  get isWatching(): boolean {
    return this.#isWatching
  }

  excludeFromScans(directories: readonly string[]): void {
    this.#out = [...this.#options.unsynced, ...directories]
  }

  async scan(): Promise<Map<string, PathStat>> {
    const patterns = this.#out.flatMap((path) => literalPattern(path) ?? [])
    return this.#marksOf(await this.#ask('scan', patterns.map((pattern) => `${pattern}\n`).join('')))
  }

  async look(paths: readonly string[]): Promise<Map<string, PathStat>> {
    if (paths.length === 0) return new Map()
    return this.#marksOf(await this.#ask('look', listed(paths)))
  }

  /** Three fields per path: stamp, name, link target. Anything else is skipped. */
  #marksOf(fields: readonly string[]): Map<string, PathStat> {
    const stats = new Map<string, PathStat>()
    for (let i = 0; i + 2 < fields.length && stats.size < MOST_ENTRIES; i += 3) {
      const [stamp = '', name = '', target = ''] = fields.slice(i, i + 3)
      const stat = parseStat(stamp, target)
      if (!name.startsWith('./')) continue
      // Bytes that are not UTF-8 decode to U+FFFD, so this is not the real name.
      if (name.includes('\ufffd')) this.#options.onNotText?.(name.slice(2))
      else if (stat) stats.set(name.slice(2), stat)
    }
    return stats
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

  read(path: string): Promise<ContentStream> {
    return this.#options.access.readFile(`${this.#options.workspace}/${path}`)
  }

  async change(orders: readonly ChangeOrder[]): Promise<Map<string, ChangeOutcome>> {
    const outcomes = new Map<string, ChangeOutcome>()
    for (const batch of batches(orders)) await this.#carryOut(batch, outcomes)
    return outcomes
  }

  async #carryOut(orders: readonly ChangeOrder[], outcomes: Map<string, ChangeOutcome>): Promise<void> {
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

  /**
   * Writes the contents to the staging directory. A file that changes meanwhile is left for the next round.
   */
  async #stageAll(orders: readonly ChangeOrder[], outcomes: Map<string, ChangeOutcome>): Promise<Staged[]> {
    const { access } = this.#options
    const together: Parameters<typeof packContents>[0][number][] = []
    const staged: Staged[] = []
    for (const [i, order] of orders.entries()) {
      const { state } = order
      if (isAbsent(state)) staged.push({ order, step: { what: 'remove', source: '', mode: '' } })
      if (state.kind === 'link')
        staged.push({ order, step: { what: 'link', source: state.target, mode: '' } })
      if (state.kind !== 'file') continue
      const source = `${this.#stage}/${i}`
      const mode = state.isExecutable ? '755' : ''
      const hash = createHash('sha256')
      const read = await order.content().catch(() => undefined)
      const content = read && watched(read, hash)
      if (content && order.sizeBytes > SMALL_BYTES)
        await access.writeFile(source, Readable.from(content, { objectMode: false }))
      else if (content)
        together.push({ path: String(i), data: await whole(content), isExecutable: state.isExecutable })
      if (hash.digest('hex') === state.hash) staged.push({ order, step: { what: 'file', source, mode } })
      else outcomes.set(order.path, ALREADY_CHANGED)
    }
    if (together.length > 0) await access.unpack(this.#stage, packContents(together))
    return staged
  }

  watch(tell: (news: ChangeNotice) => void): Disposable {
    const over = new AbortController()
    void this.#follow(tell, over.signal)
    return { [Symbol.dispose]: () => over.abort() }
  }

  /** Restarts a watch that breaks; a scan finds what changed in between. */
  async #follow(tell: (news: ChangeNotice) => void, signal: AbortSignal): Promise<void> {
    let wait = WATCH_AGAIN_MS
    while (!signal.aborted) {
      try {
        await this.#followOnce(tell, signal, () => {
          wait = WATCH_AGAIN_MS
        })
      } catch (error) {
        this.#isWatching = false
        // There are too many directories to watch: only scans find changes.
        if (isAgentPodError(error, 'resource_exhausted')) return
      }
      await sleep(this.#options.clock, wait, signal).catch(() => undefined)
      wait = Math.min(wait * 2, WATCH_AGAIN_LAST_MS)
    }
  }

  async #followOnce(
    tell: (news: ChangeNotice) => void,
    signal: AbortSignal,
    onReady: () => void,
  ): Promise<void> {
    const { access, workspace } = this.#options
    const ready = (): void => {
      this.#isWatching = true
      onReady()
      tell('all')
    }
    for await (const { kind, name } of access.watch(workspace, { signal, onReady: ready })) {
      // This event means that the watched directory itself was removed.
      if (name === basename(workspace) && (kind === 'removed' || kind === 'renamed')) break
      if (!this.#options.unsynced.some((out) => name === out || name.startsWith(`${out}/`))) tell([name])
    }
    this.#isWatching = false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const helper = await this.#helper?.catch(() => undefined)
    this.#helper = undefined
    await helper?.end()
  }

  async #ask(question: HelperRequest, about = ''): Promise<string[]> {
    this.#helper ??= this.#start()
    const helper = this.#helper
    try {
      return await (await helper).ask(question, about)
    } catch (error) {
      // A helper that failed is not used again: the next request starts another.
      if (!isAgentPodError(error, 'failed_precondition')) await this[Symbol.asyncDispose]()
      throw error
    }
  }

  async #start(): Promise<HelperConnection> {
    const { access, workspace, clock } = this.#options
    const helper = new HelperConnection((command, args) => access.start(command, args), {
      workspace,
      stage: this.#stage,
      clock,
    })
    await helper.ready()
    return helper
  }
}

interface Staged {
  readonly order: ChangeOrder
  readonly step: {
    readonly what: 'file' | 'link' | 'remove'
    readonly source: string
    readonly mode: string
  }
}

const KINDS: Readonly<Record<string, 'file' | 'link'>> = { f: 'file', l: 'link' }

function parseStat(stamp: string, target: string): PathStat | undefined {
  if (stamp === 'absent') return ABSENT_STAT
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

function outcomeOf(status: string, said: string, order: ChangeOrder): ChangeOutcome {
  if (status === 'done') return { status, stamp: undefined, state: order.state }
  if (status === 'changed') return ALREADY_CHANGED
  if (status === 'way')
    return { status: 'failed', why: 'a link or a file is in the way in the sandbox', isInTheWay: true }
  return { status: 'failed', why: `writing it in the sandbox failed: ${said.slice(-200).trim()}` }
}

function* batches(orders: readonly ChangeOrder[]): Generator<ChangeOrder[]> {
  let batch: ChangeOrder[] = []
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

async function* watched(content: ContentStream, hash: ReturnType<typeof createHash>): AsyncGenerator<Buffer> {
  for await (const piece of content) {
    hash.update(piece)
    yield piece
  }
}

/** All of it, or enough to know that it is no longer small. */
async function whole(content: ContentStream): Promise<Buffer> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of content) {
    pieces.push(piece)
    size += piece.length
    if (size > 2 * SMALL_BYTES) break
  }
  return Buffer.concat(pieces)
}
