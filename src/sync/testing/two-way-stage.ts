/** Two sides to sync between: directories of this machine with the program of the inside run by its own shell, or maps in memory. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  createReadStream,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { AgentPodError } from '../../core/error.ts'
import { systemClock } from '../../util/clock.ts'
import type { State } from '../two-way-decide.ts'
import { Host } from '../two-way-host.ts'
import { type Door, Inside } from '../two-way-inside.ts'
import {
  CHANGED,
  type Content,
  type HostSide,
  type InsideSide,
  type Mark,
  type News,
  NOTHING,
  type Order,
  type Outcome,
} from '../two-way-side.ts'

/** What a person or a program does on one side. */
export interface Hands {
  write(path: string, text: string, isExecutable?: boolean): void
  link(path: string, target: string): void
  remove(path: string): void
  /** What is in a file, `-> target` for a link, undefined where there is neither. */
  show(path: string): string | undefined
  isExecutable(path: string): boolean
  /** Every file and link, in order. */
  list(): string[]
}

export interface Stage extends AsyncDisposable {
  readonly host: HostSide
  readonly inside: InsideSide
  readonly here: Hands
  readonly there: Hands
}

export class DirectoryHands implements Hands {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  write(path: string, text: string, isExecutable = false): void {
    const full = join(this.#root, path)
    mkdirSync(dirname(full), { recursive: true })
    writeFileSync(full, text)
    chmodSync(full, isExecutable ? 0o755 : 0o644)
  }

  link(path: string, target: string): void {
    const full = join(this.#root, path)
    mkdirSync(dirname(full), { recursive: true })
    rmSync(full, { force: true })
    symlinkSync(target, full)
  }

  remove(path: string): void {
    rmSync(join(this.#root, path), { recursive: true })
  }

  show(path: string): string | undefined {
    const full = join(this.#root, path)
    const info = lstatSync(full, { throwIfNoEntry: false })
    if (info?.isSymbolicLink()) return `-> ${readlinkSync(full)}`
    return info?.isFile() ? readFileSync(full, 'utf8') : undefined
  }

  isExecutable(path: string): boolean {
    return (lstatSync(join(this.#root, path)).mode & 0o100) !== 0
  }

  list(): string[] {
    return readdirSync(this.#root, { recursive: true, encoding: 'utf8' })
      .filter((path) => !/(?:^|\/)\.git(?:\/|$)/.test(path) && this.show(path) !== undefined)
      .sort()
  }
}

export interface DirectoryStage extends Stage {
  readonly top: string
  readonly hostRoot: string
  readonly insideRoot: string
  readonly door: LocalDoor
}

export function directoryStage(
  env: Readonly<Record<string, string | undefined>>,
  aside: readonly string[] = [],
): DirectoryStage {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-sync-')))
  const [hostRoot, insideRoot] = [join(top, 'host'), join(top, 'home', 'project')]
  for (const path of [hostRoot, insideRoot]) mkdirSync(path, { recursive: true })
  const door = new LocalDoor()
  const inside = new Inside({ door, workspace: insideRoot, aside, clock: systemClock })
  return {
    top,
    hostRoot,
    insideRoot,
    door,
    host: new Host({ directory: hostRoot, exclude: [], aside, env }),
    inside,
    here: new DirectoryHands(hostRoot),
    there: new DirectoryHands(insideRoot),
    async [Symbol.asyncDispose]() {
      await inside[Symbol.asyncDispose]()
      rmSync(top, { recursive: true })
    },
  }
}

/** The ways into a directory of this machine, as if it were a sandbox. */
export class LocalDoor implements Door {
  readonly #programs: ReturnType<typeof spawn>[] = []
  /** Where it stops a call to see what becomes of it. */
  onUnpack: () => void = () => undefined

  start(command: string, args: readonly string[]): ReturnType<Door['start']> {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] })
    this.#programs.push(child)
    child.stdin.on('error', () => undefined)
    return {
      async *output() {
        for await (const data of child.stdout) yield { stream: 'stdout', data: data as Buffer }
      },
      write: (data) =>
        new Promise((resolve, reject) =>
          child.stdin.write(data, (error) => (error ? reject(error) : resolve())),
        ),
      end: async () => void child.stdin.end(),
    }
  }

  killPrograms(): void {
    for (const child of this.#programs) child.kill('SIGKILL')
  }

  get runningPrograms(): number {
    return this.#programs.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
      .length
  }

  async readFile(path: string): Promise<Content> {
    if (!existsSync(path))
      throw new AgentPodError({ code: 'not_found', reason: 'guest', message: 'no such file' })
    return createReadStream(path) as AsyncIterable<Buffer>
  }

  async writeFile(path: string, content: Buffer | Readable): Promise<void> {
    mkdirSync(dirname(path), { recursive: true })
    await writeFile(path, content)
  }

  async unpack(path: string, tar: Buffer): Promise<void> {
    this.onUnpack()
    mkdirSync(path, { recursive: true })
    const child = spawn('tar', ['-x', '-C', path], { stdio: ['pipe', 'ignore', 'ignore'] })
    child.stdin.end(tar)
    await new Promise((resolve) => child.once('close', resolve))
  }

  async *watch(
    path: string,
    o: { readonly signal: AbortSignal; onReady(): void },
  ): AsyncGenerator<{ kind: string; name: string }> {
    const names: string[] = []
    let wake: () => void = () => undefined
    const watcher = watch(path, { recursive: true, persistent: false, signal: o.signal }, (_, name) => {
      names.push(name ?? '')
      wake()
    })
    watcher.on('error', () => undefined)
    o.onReady()
    while (!o.signal.aborted) {
      const name = names.shift()
      if (name === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve
          o.signal.addEventListener('abort', () => resolve(), { once: true })
        })
      } else yield { kind: 'written', name }
    }
  }
}

type Node =
  | { readonly kind: 'file'; readonly text: string; readonly isExecutable: boolean; readonly stamp: string }
  | { readonly kind: 'link'; readonly target: string; readonly stamp: string }

/** A side in memory. `before` is called between the look at a path and the change of it, as anybody may come in between. */
export class MemorySide implements HostSide, InsideSide, Hands {
  readonly #nodes = new Map<string, Node>()
  #count = 0
  #tell: (news: News) => void = () => undefined
  isWatching = true
  isFull = false
  scans = 0
  looks = 0
  before: (path: string) => void = () => undefined
  failure: AgentPodError | undefined

  write(path: string, text: string, isExecutable = false): void {
    this.#make(path, { kind: 'file', text, isExecutable, stamp: this.#stamp() })
  }

  link(path: string, target: string): void {
    this.#make(path, { kind: 'link', target, stamp: this.#stamp() })
  }

  remove(path: string): void {
    for (const each of [...this.#nodes.keys()])
      if (each === path || each.startsWith(`${path}/`)) this.#nodes.delete(each)
    this.#tell([path])
  }

  show(path: string): string | undefined {
    const node = this.#nodes.get(path)
    return node?.kind === 'link' ? `-> ${node.target}` : node?.text
  }

  isExecutable(path: string): boolean {
    const node = this.#nodes.get(path)
    return node?.kind === 'file' && node.isExecutable
  }

  list(): string[] {
    return [...this.#nodes.keys()].sort()
  }

  /** As a shell would: what is above is made a directory, and a directory makes room. */
  #make(path: string, node: Node): void {
    const obstacle = this.#above(path)
    if (obstacle !== undefined) this.#nodes.delete(obstacle)
    if (this.#isDirectory(path)) this.remove(path)
    this.#nodes.set(path, node)
    this.#tell([path])
  }

  #above(path: string): string | undefined {
    for (let at = dirname(path); at !== '.'; at = dirname(at)) if (this.#nodes.has(at)) return at
    return undefined
  }

  #isDirectory(path: string): boolean {
    return [...this.#nodes.keys()].some((each) => each.startsWith(`${path}/`))
  }

  #stamp(): string {
    return `${++this.#count}`
  }

  #mark(path: string): Mark {
    const node = this.#nodes.get(path)
    if (!node) return this.#isDirectory(path) ? { kind: 'blocked', isDirectory: true } : NOTHING
    if (node.kind === 'link') return node
    const { kind, text, isExecutable, stamp } = node
    return { kind, sizeBytes: text.length, isExecutable, modifiedMs: 0, stamp }
  }

  async scan(): Promise<Map<string, Mark>> {
    this.scans++
    if (this.failure) throw this.failure
    return new Map([...this.#nodes.keys()].map((path) => [path, this.#mark(path)]))
  }

  async look(paths: readonly string[]): Promise<Map<string, Mark>> {
    this.looks += paths.length
    if (this.failure) throw this.failure
    return new Map(paths.map((path) => [path, this.#mark(path)]))
  }

  async hash(paths: readonly string[]): Promise<Map<string, string>> {
    return new Map(
      paths.flatMap((path) => {
        const node = this.#nodes.get(path)
        return node?.kind === 'file' ? [[path, sha256(node.text)]] : []
      }),
    )
  }

  async read(path: string): Promise<Content> {
    const node = this.#nodes.get(path)
    if (node?.kind !== 'file')
      throw new AgentPodError({ code: 'not_found', reason: 'guest', message: 'no such file' })
    return contentOf(node.text)
  }

  watch(tell: (news: News) => void): Disposable {
    this.#tell = tell
    return {
      [Symbol.dispose]: () => {
        this.#tell = () => undefined
      },
    }
  }

  async ignored(paths: readonly string[]): Promise<Set<string>> {
    return new Set(paths.filter((path) => path.startsWith('ignored/')))
  }

  leaveOut(): void {
    // A scan in memory costs nothing.
  }

  async put(path: string, expected: Mark, state: State, content: () => Promise<Content>): Promise<Outcome> {
    this.before(path)
    if (!isSameMark(this.#mark(path), expected)) return CHANGED
    if (state.kind === 'absent' || state.kind === 'blocked') {
      this.#nodes.delete(path)
      this.#tell([path])
      return { status: 'done', stamp: undefined, state: { kind: 'absent' } }
    }
    if (this.#above(path) !== undefined) return { status: 'failed', why: 'in its way', isInTheWay: true }
    if (this.isFull) return { status: 'failed', why: 'the disk is full' }
    const text = state.kind === 'file' ? await textOf(content).catch(() => undefined) : ''
    if (text === undefined) return CHANGED
    const stamp = this.#stamp()
    if (state.kind === 'link') this.#nodes.set(path, { ...state, stamp })
    else this.#nodes.set(path, { kind: 'file', text, isExecutable: state.isExecutable, stamp })
    this.#tell([path])
    return { status: 'done', stamp, state: state.kind === 'link' ? state : { ...state, hash: sha256(text) } }
  }

  async putBeside(path: string, content: () => Promise<Content>): Promise<string> {
    if (this.isFull) throw new Error('the disk is full')
    const at = this.#above(path) ?? path
    for (let n = 1; ; n++) {
      const name = `${at}.agentpod-conflict-${n}`
      if (this.#nodes.has(name)) continue
      this.write(name, await textOf(content))
      return name
    }
  }

  async change(orders: readonly Order[]): Promise<Map<string, Outcome>> {
    const outcomes = new Map<string, Outcome>()
    for (const { path, expected, state, content } of orders) {
      const text = state.kind === 'file' ? await textOf(content).catch(() => undefined) : ''
      const isAsSeen = text !== undefined && (state.kind !== 'file' || sha256(text) === state.hash)
      outcomes.set(path, isAsSeen ? await this.put(path, expected, state, () => contentOf(text)) : CHANGED)
    }
    return outcomes
  }
}

export function memoryStage(): Stage & { readonly host: MemorySide; readonly inside: MemorySide } {
  const [host, inside] = [new MemorySide(), new MemorySide()]
  return { host, inside, here: host, there: inside, [Symbol.asyncDispose]: async () => undefined }
}

function isSameMark(a: Mark, b: Mark): boolean {
  return a.kind === b.kind && (!('stamp' in a && 'stamp' in b) || a.stamp === b.stamp)
}

async function contentOf(text: string): Promise<Content> {
  return (async function* () {
    yield Buffer.from(text)
  })()
}

async function textOf(content: () => Promise<Content>): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of await content()) pieces.push(piece)
  return Buffer.concat(pieces).toString('utf8')
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
