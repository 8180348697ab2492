/** The inside of a fake sandbox: enough of the guest protocol for the contract, in memory. */
import { Duplex, PassThrough, Readable } from 'node:stream'
import type { CallOptions } from '../core/call.ts'
import { AgentPodError } from '../core/error.ts'
import type { Guest, GuestInit, GuestLease, GuestRequest, GuestResponse, GuestUsage } from '../core/guest.ts'
import type { Clock } from '../util/clock.ts'
import { encodeFrame, FrameReader } from '../util/connect-frame.ts'
import { FakeProcess } from './fake-process.ts'

const FRAMES = { 'content-type': 'application/connect+json' }
const STATUS: Readonly<Record<string, number>> = { not_found: 404, already_exists: 409, unimplemented: 404 }

/** What a sandbox keeps, however many guests are opened on it. */
export class FakeInside {
  readonly files = new Map<string, Buffer>()
  readonly processes: FakeProcess[] = []
  readonly init: { value: GuestInit | undefined } = { value: undefined }
  readonly startedAt: number
  /** How long nobody has used it, as a test says. */
  idleForMs = 0
  /** Ports where something listens: what is written comes back. */
  readonly echoPorts = new Set<number>()
  /** Which signals were sent to which tags, in order. */
  readonly signals: string[] = []
  readonly #clock: Clock
  readonly #onExpired: () => void
  readonly #ended = new AbortController()
  #cancelLease = (): void => undefined
  #nextPid = 2

  constructor(clock: Clock, onExpired: () => void, files?: ReadonlyMap<string, Buffer>) {
    for (const [path, data] of files ?? []) this.files.set(path, data)
    this.#clock = clock
    this.#onExpired = onExpired
    this.startedAt = clock.now()
  }

  /** Aborts when the sandbox is no more. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** A timer that is set when it is used. */
  timer(ms: number): (over: () => void) => () => void {
    return (over) => this.#clock.after(ms, over)
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

  start(message: Record<string, unknown>, user: string): FakeProcess {
    const config = message['process'] as { cmd: string; args?: string[]; envs?: object; cwd?: string }
    const tag = message['tag'] as string | undefined
    if (tag && this.processes.some((process) => process.tag === tag)) {
      throw fault('already_exists', 'the tag is taken')
    }
    const init = this.init.value
    const process = new FakeProcess({
      pid: this.#nextPid++,
      tag,
      line: {
        cmd: config.cmd,
        args: config.args ?? [],
        env: { ...init?.env, ...config.envs },
        user: user || (init?.defaultUser ?? 'user'),
        cwd: config.cwd ?? (init?.defaultWorkdir || '/home/user'),
      },
      clock: this.#clock,
      files: this.files,
    })
    this.processes.push(process)
    return process
  }

  find(selector: unknown): FakeProcess {
    const { pid, tag } = selector as { pid?: number; tag?: string }
    const found = this.processes.find((process) => process.pid === pid || (tag && process.tag === tag))
    if (found) return found
    throw fault('not_found', 'no such process')
  }
}

export class FakeGuest implements Guest {
  readonly #inside: FakeInside | undefined
  readonly #clock: Clock

  /** Without an inside the sandbox is gone, and nothing answers. */
  constructor(inside: FakeInside | undefined, clock: Clock) {
    this.#inside = inside
    this.#clock = clock
  }

  async health(_o: CallOptions): Promise<void> {
    this.#alive()
  }

  async configure(init: GuestInit, _o: CallOptions): Promise<void> {
    const inside = this.#alive()
    inside.init.value = init
    inside.lease(init.lease)
  }

  async renew(lease: GuestLease, _o: CallOptions): Promise<void> {
    this.#alive().lease(lease)
  }

  async usage(_o: CallOptions): Promise<GuestUsage> {
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

  async forward(request: GuestRequest, o: { readonly signal: AbortSignal }): Promise<GuestResponse> {
    const inside = this.#alive()
    o.signal.throwIfAborted()
    const signal = AbortSignal.any([o.signal, inside.ended])
    const body = await collect(request.body)
    try {
      return route(inside, request, body, signal)
    } catch (error) {
      if (!(error instanceof GuestFault)) throw error
      return json(STATUS[error.code] ?? 400, { code: error.code, message: error.message })
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

  #alive(): FakeInside {
    if (this.#inside && !this.#inside.ended.aborted) return this.#inside
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'guest.unreachable',
      message: 'the sandbox does not answer',
    })
  }
}

class GuestFault extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

function fault(code: string, message: string): GuestFault {
  return new GuestFault(code, message)
}

function route(inside: FakeInside, request: GuestRequest, body: Buffer, signal: AbortSignal): GuestResponse {
  const url = new URL(request.path, 'http://guest')
  const path = url.searchParams.get('path') ?? ''
  const message = (): Record<string, unknown> => JSON.parse(body.toString('utf8') || '{}')
  switch (`${request.method} ${decodeURIComponent(url.pathname)}`) {
    case 'GET /health':
      return { status: 204, headers: {}, body: Readable.from([]) }
    case 'PUT /agentpod/init':
      inside.init.value = message() as unknown as GuestInit
      return json(200, {})
    case 'PUT /agentpod/lease':
      inside.lease(message() as unknown as GuestLease)
      return json(200, {})
    case 'POST /process.Process/Start': {
      const process = inside.start(frameOf(body), userOf(request))
      const timeoutMs = Number(request.headers['connect-timeout-ms'] ?? 0)
      return events(process, 0, signal, timeoutMs > 0 ? inside.timer(timeoutMs) : undefined)
    }
    case 'POST /agentpod/tar':
      for (const [name, data] of tarEntries(body)) inside.files.set(`${path}/${name}`, data)
      return json(200, {})
    case 'POST /agentpod/attach': {
      const asked = frameOf(body)
      const process = inside.find(asked['process'])
      const offset =
        asked['stdout'] === undefined
          ? Number(asked['offset'] ?? 0)
          : process.afterStdout(Number(asked['stdout']))
      return events(process, offset, signal)
    }
    case 'POST /agentpod/input': {
      const process = inside.find({ tag: url.searchParams.get('tag') })
      const offset = Number(url.searchParams.get('offset'))
      if (offset > process.taken) throw fault('failed_precondition', 'something before it is missing')
      process.write(body.subarray(process.taken - offset))
      return json(200, { stdinBytes: String(process.taken) })
    }
    case 'GET /agentpod/processes': {
      const tag = url.searchParams.get('tag')
      return json(200, inside.processes.filter((one) => tag === null || one.tag === tag).map(describe))
    }
    case 'POST /process.Process/SendInput':
      inside.find(message()['process']).write(inputOf(message()['input']))
      return json(200, {})
    case 'POST /process.Process/CloseStdin':
      inside.find(message()['process']).closeStdin()
      return json(200, {})
    case 'POST /process.Process/SendSignal':
      inside.signals.push(`${String(message()['signal'])} ${inside.find(message()['process']).tag}`)
      inside.find(message()['process']).kill(String(message()['signal']).replace(/^SIGNAL_/, ''))
      return json(200, {})
    case 'POST /files':
      inside.files.set(path, body)
      return json(200, [{ name: path.split('/').at(-1), path, type: 'file' }])
    case 'GET /files': {
      const content = inside.files.get(path)
      if (!content) throw fault('not_found', `${path} does not exist`)
      const headers = { 'content-type': 'application/octet-stream' }
      return { status: 200, headers, body: Readable.from([content], { objectMode: false }) }
    }
    default:
      throw fault('unimplemented', `no call ${request.method} ${url.pathname}`)
  }
}

/** The events of a process as frames, until it ends or the signal cuts them. */
function events(
  process: FakeProcess,
  offset: number,
  signal: AbortSignal,
  timer?: (over: () => void) => () => void,
): GuestResponse {
  const body = new PassThrough()
  const cancel = timer?.(() => {
    unfollow()
    process.kill('SIGKILL')
    const error = { code: 'deadline_exceeded', message: 'the timeout of the call is over' }
    body.end(encodeFrame({ error }, true))
  })
  const unfollow = process.follow(offset, (event) => {
    body.write(encodeFrame({ event }))
    if ('end' in event) body.end(encodeFrame({}, true))
  })
  const cut = (): void => void body.destroy(new Error('the exchange was cut'))
  signal.addEventListener('abort', cut, { once: true })
  body.once('close', () => {
    cancel?.()
    unfollow()
    signal.removeEventListener('abort', cut)
  })
  return { status: 200, headers: FRAMES, body }
}

function describe(process: FakeProcess): object {
  const { cmd, args } = process.line
  const { pid, tag, exitCode } = process
  return {
    pid,
    tag,
    config: { cmd, args },
    exitCode,
    stdinBytes: String(process.taken),
    ...(exitCode !== undefined && { endedAt: '2001-01-01T00:00:00Z' }),
  }
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

function frameOf(body: Buffer): Record<string, unknown> {
  const message = new FrameReader().push(body)[0]?.message
  if (typeof message === 'object' && message !== null) return message as Record<string, unknown>
  throw fault('invalid_argument', 'no message')
}

function inputOf(input: unknown): Buffer {
  const { stdin, pty } = input as { stdin?: string; pty?: string }
  return Buffer.from(stdin ?? pty ?? '', 'base64')
}

function userOf(request: GuestRequest): string {
  const basic = /^Basic (.+)$/.exec(String(request.headers['authorization'] ?? ''))?.[1] ?? ''
  return Buffer.from(basic, 'base64').toString('utf8').split(':')[0] ?? ''
}

function json(status: number, value: unknown): GuestResponse {
  const body = Readable.from([Buffer.from(JSON.stringify(value))], { objectMode: false })
  return { status, headers: { 'content-type': 'application/json' }, body }
}

async function collect(body: Readable | undefined): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body ?? []) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
