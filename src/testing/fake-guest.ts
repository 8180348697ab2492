/**
 * The inside of a fake sandbox, in memory. It does not speak envd's protocol, so requests are translated for
 * it.
 */
import { Duplex, PassThrough, Readable } from 'node:stream'
import type { CallOptions, GuestCall } from '../core/call.ts'
import { AgentPodError } from '../core/error.ts'
import type { Guest, GuestInit, GuestLease, GuestStats } from '../core/guest.ts'
import type { FileEntry, GuestArchive, GuestFiles } from '../core/guest-files.ts'
import type {
  GuestCommand,
  GuestProcesses,
  OutputPlace,
  ProcessEvent,
  ProcessRef,
} from '../core/guest-process.ts'
import type { Clock } from '../util/clock.ts'
import { FakeFiles, type FakeMount } from './fake-files.ts'
import { FakeProcess, fakeRefusal } from './fake-process.ts'

/** The state of a sandbox, shared by all guests opened on it. */
export class FakeInside {
  readonly files: FakeFiles
  readonly processes: FakeProcess[] = []
  readonly init: { value: GuestInit | undefined } = { value: undefined }
  readonly startedAt: number
  /** The idle time that a test sets. */
  idleForMs = 0
  /** Open ports; they echo what is written. */
  readonly echoPorts = new Set<number>()
  /** The signals sent so far, with their tags, in order. */
  readonly signals: string[] = []
  readonly #clock: Clock
  readonly #onExpired: () => void
  readonly #ended = new AbortController()
  #cancelLease = (): void => undefined
  #nextPid = 2

  constructor(
    clock: Clock,
    onExpired: () => void,
    files?: ReadonlyMap<string, Buffer>,
    mounts: readonly FakeMount[] = [],
  ) {
    this.files = new FakeFiles(mounts, () => {
      throw fakeRefusal('failed_precondition', 'it is mounted read-only')
    })
    for (const [path, data] of files ?? []) this.files.set(path, data)
    this.#clock = clock
    this.#onExpired = onExpired
    this.startedAt = clock.now()
  }

  /** Aborts when the sandbox is gone. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  lease({ remainingMs }: GuestLease): void {
    this.#cancelLease()
    if (remainingMs > 0) this.#cancelLease = this.#clock.after(remainingMs, this.#onExpired)
  }

  end(): void {
    this.#cancelLease()
    for (const process of this.processes) process.kill()
    this.#ended.abort()
  }

  start({ command, args, env, cwd, user, tag, timeoutMs }: GuestCommand): FakeProcess {
    if (tag && this.processes.some((process) => process.tag === tag)) {
      throw fakeRefusal('already_exists', 'the tag is taken')
    }
    const init = this.init.value
    const process = new FakeProcess({
      pid: this.#nextPid++,
      tag,
      line: {
        cmd: command,
        args,
        env: { ...init?.env, ...env },
        user: user ?? init?.defaultUser ?? 'user',
        cwd: cwd ?? (init?.defaultWorkdir || '/home/user'),
      },
      clock: this.#clock,
      files: this.files,
      timeoutMs,
    })
    this.processes.push(process)
    return process
  }

  find(ref: ProcessRef): FakeProcess {
    const found = this.processes.find(({ pid, tag }) => ('tag' in ref ? tag === ref.tag : pid === ref.pid))
    if (found) return found
    throw fakeRefusal('not_found', 'no such process')
  }
}

export class FakeGuest implements Guest {
  readonly processes: GuestProcesses
  readonly files: GuestFiles
  readonly archive: GuestArchive
  readonly lease: NonNullable<Guest['lease']>
  readonly #inside: FakeInside | undefined
  readonly #clock: Clock

  /** Undefined means that the sandbox is gone and does not answer. */
  constructor(inside: FakeInside | undefined, clock: Clock) {
    this.#inside = inside
    this.#clock = clock
    const alive = (o?: GuestCall): FakeInside => this.#alive(o)
    this.processes = fakeProcesses(alive)
    this.files = fakeFiles(alive)
    this.archive = fakeArchive(alive)
    this.lease = { renew: async (lease) => alive().lease(lease) }
  }

  async health(_o: CallOptions): Promise<void> {
    this.#alive()
  }

  async configure(init: GuestInit, _o: CallOptions): Promise<void> {
    const inside = this.#alive()
    inside.init.value = init
    inside.lease(init.lease)
  }

  async stats(_o: CallOptions): Promise<GuestStats> {
    const inside = this.#alive()
    const processes = inside.processes.filter((process) => process.exitCode === undefined).length
    const uptimeMs = this.#clock.now() - inside.startedAt
    return {
      cpuMs: 1,
      memBytes: 1 << 20,
      pids: processes + 1,
      processes,
      uptimeMs,
      idleForMs: inside.idleForMs,
    }
  }

  async dial(port: number, _o: CallOptions): Promise<Duplex> {
    if (this.#alive().echoPorts.has(port)) {
      const echo = new PassThrough()
      return Duplex.from({ readable: echo, writable: echo })
    }
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'port.closed',
      message: `nothing listens on port ${port} in the sandbox`,
    })
  }

  close(): void {}

  #alive(o?: GuestCall): FakeInside {
    if (!this.#inside) throw unreachable()
    throwIfGone(this.#inside, o?.signal)
    return this.#inside
  }
}

/** The inside, unless the call was canceled. */
type Alive = (o?: GuestCall) => FakeInside

function unreachable(): AgentPodError {
  const message = 'the sandbox does not answer'
  return new AgentPodError({ code: 'unavailable', reason: 'guest.unreachable', message })
}

function fakeProcesses(alive: Alive): GuestProcesses {
  async function* follow(
    o: GuestCall,
    from: OutputPlace,
    find: (inside: FakeInside) => FakeProcess,
  ): AsyncGenerator<ProcessEvent> {
    const inside = alive(o)
    const either = AbortSignal.any([o.signal, inside.ended])
    yield* find(inside).events(from, either, () => throwIfCut(inside, o.signal))
  }
  return {
    start: (command, o) => follow(o, { offset: 0 }, (inside) => inside.start(command)),
    attach: (process, from, o) => follow(o, from, (inside) => inside.find(process)),
    async list(o) {
      const found = alive(o).processes.filter((one) => o.tag === undefined || one.tag === o.tag)
      return found.map(({ info }) => info)
    },
    async write(process, _to, data, o) {
      alive(o).find(process).write(data)
    },
    async writeAt(tag, offset, data, o) {
      const process = alive(o).find({ tag })
      if (offset > process.taken) throw fakeRefusal('failed_precondition', 'something before it is missing')
      process.write(data.subarray(process.taken - offset))
      return process.taken
    },
    async closeStdin(process, o) {
      alive(o).find(process).closeStdin()
    },
    async signal(process, name, o) {
      const found = alive(o).find(process)
      alive(o).signals.push(`${name} ${found.tag}`)
      found.kill(name)
    },
    async resize() {
      throw unsupported('it has no terminals')
    },
  }
}

function throwIfGone(inside: FakeInside, signal?: AbortSignal): void {
  if (signal?.aborted) {
    throw new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the call was canceled' })
  }
  if (inside.ended.aborted) throw unreachable()
}

function throwIfCut(inside: FakeInside, signal: AbortSignal): void {
  if (!signal.aborted && inside.ended.aborted) {
    const message = 'the connection into the sandbox was cut'
    throw new AgentPodError({ code: 'unavailable', reason: 'stream.cut', message })
  }
  throwIfGone(inside, signal)
}

function fakeFiles(alive: Alive): GuestFiles {
  const content = (path: string, o: GuestCall): Buffer => {
    const found = alive(o).files.get(path)
    if (found) return found
    throw fakeRefusal('not_found', `${path} does not exist`)
  }
  return {
    stat: async (path, o) => entryOf(path, content(path, o)),
    async list(path, depth, o) {
      const below = `${path.replace(/\/$/, '')}/`
      const found = [...alive(o).files].filter(([name]) => name.startsWith(below))
      const near = found.filter(([name]) => name.slice(below.length).split('/').length <= depth)
      return near.map(([name, data]) => entryOf(name, data))
    },
    async read(path, o) {
      const data = content(path, o)
      return { sizeBytes: data.length, content: Readable.from([data], { objectMode: false }) }
    },
    async write(path, data, o) {
      alive(o).files.set(path, await collect(data))
      return path
    },
    async move(from, to, o) {
      const data = content(from, o)
      alive(o).files.delete(from)
      alive(o).files.set(to, data)
      return entryOf(to, data)
    },
    async remove(path, o) {
      alive(o).files.delete(path)
    },
    makeDir: async () => {
      throw unsupported('it has no directories')
    },
    watch: async () => {
      throw unsupported('it watches nothing')
    },
  }
}

function entryOf(path: string, data: Buffer): FileEntry {
  const name = path.split('/').at(-1) ?? ''
  const owner = { owner: 'user', group: 'user' }
  const mode = { mode: 0o644, permissions: '-rw-r--r--' }
  const modifiedAt = '2001-01-01T00:00:00Z'
  return { name, path, type: 'file', sizeBytes: data.length, ...mode, ...owner, modifiedAt }
}

function fakeArchive(alive: Alive): GuestArchive {
  return {
    async unpack(path, archive, o) {
      const data = await collect(archive)
      for (const [name, content] of tarEntries(data)) alive(o).files.set(`${path}/${name}`, content)
    },
    pack: async () => {
      throw unsupported('it packs nothing')
    },
  }
}

function unsupported(message: string): AgentPodError {
  return fakeRefusal('unsupported', message)
}

/** Plain files of a tar archive with short names. */
function tarEntries(archive: Buffer): [string, Buffer][] {
  const entries: [string, Buffer][] = []
  for (let at = 0; at + 512 <= archive.length && archive[at] !== 0; ) {
    const text = (from: number, length: number): string =>
      archive
        .subarray(at + from, at + from + length)
        .toString('utf8')
        .replace(/\0.*$/s, '')
    const size = Number.parseInt(text(124, 12), 8)
    if (text(156, 1) === '0') entries.push([text(0, 100), archive.subarray(at + 512, at + 512 + size)])
    at += 512 + Math.ceil(size / 512) * 512
  }
  return entries
}

async function collect(body: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
