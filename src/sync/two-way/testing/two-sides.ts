/**
 * Two sides for tests: two directories of this machine, with the sync helper run by this machine's shell, or
 * two maps in memory.
 */

import { spawn } from 'node:child_process'
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
import { AgentPodError } from '../../../core/error.ts'
import { systemClock } from '../../../util/clock.ts'
import { sha256Hex } from '../../../util/sha256.ts'
import type { PathState } from '../decide-path.ts'
import { HostDirectory } from '../host-directory.ts'
import { type SandboxAccess, SandboxDirectory } from '../sandbox-directory.ts'
import {
  ABSENT_STAT,
  ALREADY_CHANGED,
  type ChangeNotice,
  type ChangeOrder,
  type ChangeOutcome,
  type ContentStream,
  type HostSide,
  type PathStat,
  type SandboxSide,
} from '../side.ts'

/** Edits one side, as a person or a program would. */
export interface SideEditor {
  write(path: string, text: string, isExecutable?: boolean): void
  link(path: string, target: string): void
  remove(path: string): void
  /** The content of a file, `-> target` for a link, undefined if the path is neither. */
  show(path: string): string | undefined
  isExecutable(path: string): boolean
  /** Every file and link, in order. */
  list(): string[]
}

export interface TwoSides extends AsyncDisposable {
  readonly host: HostSide
  readonly inside: SandboxSide
  readonly here: SideEditor
  readonly there: SideEditor
}

export class DirectoryEditor implements SideEditor {
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

export interface TwoDirectories extends TwoSides {
  readonly top: string
  readonly hostRoot: string
  readonly insideRoot: string
  readonly access: LocalAccess
}

export function twoDirectories(
  env: Readonly<Record<string, string | undefined>>,
  unsynced: readonly string[] = [],
): TwoDirectories {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-sync-')))
  const [hostRoot, insideRoot] = [join(top, 'host'), join(top, 'home', 'project')]
  for (const path of [hostRoot, insideRoot]) mkdirSync(path, { recursive: true })
  const access = new LocalAccess()
  const inside = new SandboxDirectory({ access, workspace: insideRoot, unsynced, clock: systemClock })
  return {
    top,
    hostRoot,
    insideRoot,
    access,
    host: new HostDirectory({ directory: hostRoot, exclude: [], unsynced, env }),
    inside,
    here: new DirectoryEditor(hostRoot),
    there: new DirectoryEditor(insideRoot),
    async [Symbol.asyncDispose]() {
      await inside[Symbol.asyncDispose]()
      rmSync(top, { recursive: true })
    },
  }
}

/** Access to a directory of this machine, as if it were a sandbox. */
export class LocalAccess implements SandboxAccess {
  readonly #programs: ReturnType<typeof spawn>[] = []
  /** Hook of a test, called before an archive is unpacked. */
  onUnpack: () => void = () => undefined

  start(command: string, args: readonly string[]): ReturnType<SandboxAccess['start']> {
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

  async readFile(path: string): Promise<ContentStream> {
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

/**
 * A side in memory. `before` is called between the check of a path and its change, to simulate a concurrent
 * write.
 */
export class MemorySide implements HostSide, SandboxSide, SideEditor {
  readonly #nodes = new Map<string, Node>()
  #count = 0
  #tell: (news: ChangeNotice) => void = () => undefined
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

  /** As `mkdir -p` and `rm -r` would: parents become directories, and a directory is replaced. */
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

  #mark(path: string): PathStat {
    const node = this.#nodes.get(path)
    if (!node) return this.#isDirectory(path) ? { kind: 'blocked', isDirectory: true } : ABSENT_STAT
    if (node.kind === 'link') return node
    const { kind, text, isExecutable, stamp } = node
    return { kind, sizeBytes: text.length, isExecutable, modifiedMs: 0, stamp }
  }

  async scan(): Promise<Map<string, PathStat>> {
    this.scans++
    if (this.failure) throw this.failure
    return new Map([...this.#nodes.keys()].map((path) => [path, this.#mark(path)]))
  }

  async look(paths: readonly string[]): Promise<Map<string, PathStat>> {
    this.looks += paths.length
    if (this.failure) throw this.failure
    return new Map(paths.map((path) => [path, this.#mark(path)]))
  }

  async hash(paths: readonly string[]): Promise<Map<string, string>> {
    return new Map(
      paths.flatMap((path) => {
        const node = this.#nodes.get(path)
        return node?.kind === 'file' ? [[path, sha256Hex(node.text)]] : []
      }),
    )
  }

  async read(path: string): Promise<ContentStream> {
    const node = this.#nodes.get(path)
    if (node?.kind !== 'file')
      throw new AgentPodError({ code: 'not_found', reason: 'guest', message: 'no such file' })
    return contentOf(node.text)
  }

  watch(tell: (news: ChangeNotice) => void): Disposable {
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

  excludeFromScans(): void {
    // A scan in memory costs nothing.
  }

  async put(
    path: string,
    expected: PathStat,
    state: PathState,
    content: () => Promise<ContentStream>,
  ): Promise<ChangeOutcome> {
    this.before(path)
    if (!isSameStat(this.#mark(path), expected)) return ALREADY_CHANGED
    if (state.kind === 'absent' || state.kind === 'blocked') {
      this.#nodes.delete(path)
      this.#tell([path])
      return { status: 'done', stamp: undefined, state: { kind: 'absent' } }
    }
    if (this.#above(path) !== undefined) return { status: 'failed', why: 'in its way', isInTheWay: true }
    if (this.isFull) return { status: 'failed', why: 'the disk is full' }
    const text = state.kind === 'file' ? await textOf(content).catch(() => undefined) : ''
    if (text === undefined) return ALREADY_CHANGED
    const stamp = this.#stamp()
    if (state.kind === 'link') this.#nodes.set(path, { ...state, stamp })
    else this.#nodes.set(path, { kind: 'file', text, isExecutable: state.isExecutable, stamp })
    this.#tell([path])
    return {
      status: 'done',
      stamp,
      state: state.kind === 'link' ? state : { ...state, hash: sha256Hex(text) },
    }
  }

  async writeConflictCopy(path: string, content: () => Promise<ContentStream>): Promise<string> {
    if (this.isFull) throw new Error('the disk is full')
    const at = this.#above(path) ?? path
    for (let n = 1; ; n++) {
      const name = `${at}.agentpod-conflict-${n}`
      if (this.#nodes.has(name)) continue
      this.write(name, await textOf(content))
      return name
    }
  }

  async change(orders: readonly ChangeOrder[]): Promise<Map<string, ChangeOutcome>> {
    const outcomes = new Map<string, ChangeOutcome>()
    for (const { path, expected, state, content } of orders) {
      const text = state.kind === 'file' ? await textOf(content).catch(() => undefined) : ''
      const isAsSeen = text !== undefined && (state.kind !== 'file' || sha256Hex(text) === state.hash)
      outcomes.set(
        path,
        isAsSeen ? await this.put(path, expected, state, () => contentOf(text)) : ALREADY_CHANGED,
      )
    }
    return outcomes
  }
}

export function twoMemorySides(): TwoSides & { readonly host: MemorySide; readonly inside: MemorySide } {
  const [host, inside] = [new MemorySide(), new MemorySide()]
  return { host, inside, here: host, there: inside, [Symbol.asyncDispose]: async () => undefined }
}

function isSameStat(a: PathStat, b: PathStat): boolean {
  return a.kind === b.kind && (!('stamp' in a && 'stamp' in b) || a.stamp === b.stamp)
}

async function contentOf(text: string): Promise<ContentStream> {
  return (async function* () {
    yield Buffer.from(text)
  })()
}

async function textOf(content: () => Promise<ContentStream>): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of await content()) pieces.push(piece)
  return Buffer.concat(pieces).toString('utf8')
}
