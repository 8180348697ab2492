/**
 * A command in a sandbox. Its output is followed by byte offset: when the connection breaks or the server
 * restarts, the stream continues where it stopped, and no output is lost or repeated.
 */

import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { basicAuthorization } from '../util/basic-authorization.ts'
import { systemClock } from '../util/clock.ts'
import { encodeFrame } from '../util/stream/connect-frame.ts'
import { events } from './event-stream.ts'
import type { Transport } from './transport.ts'

export interface ExecOptions {
  readonly args?: readonly string[] | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly cwd?: string | undefined
  readonly user?: string | undefined
  /** Keeps stdin open for `write` and `closeStdin`. */
  readonly stdin?: boolean | undefined
  /** A terminal of this size instead of pipes. */
  readonly terminal?: { readonly cols: number; readonly rows: number } | undefined
  /** Kills the command and all its children after this time. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export type Output = { readonly stream: 'stdout' | 'stderr' | 'terminal'; readonly data: Buffer }

/** A command that has ended, with any exit code. */
export interface Exit {
  readonly exitCode: number
  readonly signal: string | undefined
  readonly oomKilled: boolean
}

export interface ProcessResult extends Exit {
  readonly stdout: string
  readonly stderr: string
}

export interface OutputCallbacks {
  readonly onStdout?: ((data: Buffer) => void) | undefined
  readonly onStderr?: ((data: Buffer) => void) | undefined
}

const RECONNECT_FOR_MS = 60_000
/** How long to wait for the end of a stream after its last event. */
const STREAM_END_MS = 20
const RECONNECT_EVERY_MS = 100
const STREAM = 'application/connect+json'
const WAKE_NEVER = { 'agentpod-wake': 'never' } as const

interface Opened {
  readonly first: IteratorResult<Record<string, unknown>>
  readonly rest: AsyncGenerator<Record<string, unknown>>
  readonly response: IncomingMessage
}

interface Selector {
  readonly tag?: string
  readonly pid?: number
}

export class Process {
  readonly #transport: Transport
  readonly #headers: Readonly<Record<string, string>>
  readonly #selector: Selector
  readonly #options: ExecOptions
  readonly #begin: (() => Promise<IncomingMessage>) | undefined
  readonly #started = Promise.withResolvers<number>()
  readonly #isTerminal: boolean
  #offset = 0
  #mayHaveStarted = false
  #hasStarted = false
  #isAttaching = false
  #wasConnected = false
  #exit: Exit | undefined
  #failingSince: number | undefined
  /** The stream that the start opened, until it is read. */
  #opened: Promise<Opened> | undefined

  /** Use `Sandbox.exec` or `Sandbox.attach`. */
  constructor(o: {
    transport: Transport
    headers: Readonly<Record<string, string>>
    selector: Selector
    options: ExecOptions
    begin?: () => Promise<IncomingMessage>
  }) {
    this.#transport = o.transport
    this.#headers = o.headers
    this.#selector = o.selector
    this.#options = o.options
    this.#begin = o.begin
    this.#isTerminal = o.options.terminal !== undefined
    this.#started.promise.catch(() => undefined)
    if (o.begin) {
      this.#opened = this.#open()
      this.#opened.catch(() => undefined)
    }
  }

  /** The process id inside the sandbox, once it runs. */
  get pid(): Promise<number> {
    return this.#started.promise
  }

  /**
   * The output as it arrives; may be read once. Ends when the command ends. A paused sandbox sends nothing.
   * If the sandbox is stopped the command is gone, and this throws `conflict` with reason `sandbox.state`.
   */
  async *output(): AsyncGenerator<Output> {
    for (;;) {
      const opened = this.#opened ?? this.#open()
      this.#opened = undefined
      const { first, rest, response } = await opened
      try {
        for (let next = first; !next.done; next = await rest.next()) {
          const output = this.#take(next.value)
          if (output) yield output
          if (this.#exit) return await untilEnd(rest, response)
        }
        throw new AgentPodError({ code: 'unavailable', reason: 'stream.cut', message: 'the stream was cut' })
      } catch (error) {
        await this.#endOrWait(error)
      } finally {
        await rest.return(undefined)
      }
    }
  }

  /**
   * Stops reading. The sandbox keeps the output: `output` and `wait` can read it again from the beginning.
   */
  async release(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    await (await opened)?.rest.return(undefined)
  }

  /** Connects, with retries, and waits for the first event, which means that the command runs. */
  async #open(): Promise<Opened> {
    for (;;) {
      try {
        const response = await this.#connect()
        const rest = events(response, this.#options.signal)
        this.#wasConnected = true
        const first = await rest.next()
        this.#failingSince = undefined
        if (!first.done && first.value['start']) this.#take(first.value)
        return { first, rest, response }
      } catch (error) {
        await this.#endOrWait(error)
      }
    }
  }

  async #endOrWait(error: unknown): Promise<void> {
    this.#failingSince ??= systemClock.now()
    const verdict = this.#judge(error, systemClock.now() - this.#failingSince)
    if (verdict !== 'retry') {
      this.#started.reject(verdict)
      throw verdict
    }
    await pause(RECONNECT_EVERY_MS, undefined, { signal: this.#options.signal })
  }

  /** Reads all output and returns the result; the callbacks get each piece as it arrives. */
  async wait(on: OutputCallbacks = {}): Promise<ProcessResult> {
    const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
    for await (const { stream, data } of this.output()) {
      const isError = stream === 'stderr'
      parts[isError ? 'stderr' : 'stdout'].push(data)
      ;(isError ? on.onStderr : on.onStdout)?.(data)
    }
    return {
      ...this.exit,
      stdout: Buffer.concat(parts.stdout).toString('utf8'),
      stderr: Buffer.concat(parts.stderr).toString('utf8'),
    }
  }

  /** How the command ended; available after `output` has ended. */
  get exit(): Exit {
    if (this.#exit) return this.#exit
    throw new AgentPodError({
      code: 'conflict',
      reason: 'process.running',
      message: 'the command has not ended',
    })
  }

  async write(data: Buffer): Promise<void> {
    const input = this.#isTerminal ? { pty: data.toString('base64') } : { stdin: data.toString('base64') }
    await this.#call('SendInput', { input })
  }

  async closeStdin(): Promise<void> {
    await this.#call('CloseStdin', {})
  }

  /**
   * `SIGTERM` or `TERM`. SIGKILL kills the command and all its children; other signals go to its process
   * group.
   */
  async signal(name: string): Promise<void> {
    await this.#call('SendSignal', { signal: `SIGNAL_${name.startsWith('SIG') ? name : `SIG${name}`}` })
  }

  /** Kills the command and all its children. */
  kill(): Promise<void> {
    return this.signal('SIGKILL')
  }

  async resize(size: { cols: number; rows: number }): Promise<void> {
    await this.#call('Update', { pty: { size } })
  }

  async #call(method: string, body: object): Promise<void> {
    await this.pid
    await this.#transport.json(
      'POST',
      `/process.Process/${method}`,
      { process: this.#selector, ...body },
      { headers: this.#headers },
    )
  }

  /** Starts the command, or reconnects to it where its output stopped. */
  async #connect(): Promise<IncomingMessage> {
    this.#isAttaching = !this.#begin || this.#hasStarted || this.#mayHaveStarted
    if (this.#begin && !this.#isAttaching) {
      this.#mayHaveStarted = true
      return this.#begin()
    }
    return this.#transport.open({
      method: 'POST',
      path: '/agentpod/attach',
      // Do not wake a sandbox that was stopped meanwhile: its process is gone.
      headers: { ...this.#headers, 'content-type': STREAM, ...(this.#wasConnected && WAKE_NEVER) },
      body: encodeFrame({ process: this.#selector, offset: String(this.#offset) }),
      signal: this.#options.signal,
    })
  }

  /** Decides after a failure: retry, or fail with an error. */
  #judge(error: unknown, failingForMs: number): 'retry' | unknown {
    if (this.#isAttaching && isUnknownProcess(error)) {
      if (!this.#begin || this.#hasStarted) return unknownProcess()
      // The start never reached the sandbox: the tag is unused, so the command cannot run twice.
      this.#mayHaveStarted = false
      return 'retry'
    }
    return isAgentPodError(error, 'unavailable') && failingForMs < RECONNECT_FOR_MS ? 'retry' : error
  }

  #take(event: Record<string, unknown>): Output | undefined {
    if (event['start']) {
      this.#hasStarted = true
      this.#started.resolve(Number((event['start'] as { pid?: unknown }).pid))
    } else if (event['data']) {
      return this.#output(event['data'] as Record<string, string>)
    } else if (event['gap']) {
      return this.#gap(event['gap'] as Record<string, string>)
    } else if (event['end']) {
      this.#exit = exitOf(event['end'] as Record<string, unknown>)
    }
    return undefined
  }

  #output(data: Record<string, string>): Output | undefined {
    for (const [key, stream] of [
      ['stdout', 'stdout'],
      ['stderr', 'stderr'],
      ['pty', 'terminal'],
    ] as const) {
      const text = data[key]
      if (text === undefined) continue
      const bytes = Buffer.from(text, 'base64')
      this.#offset += bytes.length
      return { stream, data: bytes }
    }
    return undefined
  }

  /** A note in place of output that the sandbox could not keep. */
  #gap(gap: Record<string, string>): Output {
    const missing = Number(gap['to']) - Number(gap['from'] ?? 0)
    this.#offset = Number(gap['to'])
    return { stream: 'stderr', data: Buffer.from(`\n[agentpod: ${missing} bytes of output were not kept]\n`) }
  }
}

export interface StartOptions extends ExecOptions {
  readonly command: string
}

/** Starts a process immediately. */
export function startProcess(
  transport: Transport,
  sandbox: Readonly<Record<string, string>>,
  o: StartOptions,
): Process {
  const tag = randomUUID()
  const headers = o.user === undefined ? sandbox : { ...sandbox, authorization: basicAuthorization(o.user) }
  const message = {
    process: { cmd: o.command, args: o.args ?? [], envs: o.env ?? {}, ...(o.cwd && { cwd: o.cwd }) },
    ...(o.terminal && { pty: { size: o.terminal } }),
    tag,
    stdin: o.stdin ?? false,
  }
  const begin = (): Promise<IncomingMessage> =>
    transport.open({
      method: 'POST',
      path: '/process.Process/Start',
      headers: {
        ...headers,
        'content-type': STREAM,
        ...(o.timeoutMs !== undefined && { 'connect-timeout-ms': String(o.timeoutMs) }),
      },
      body: encodeFrame(message),
      signal: o.signal,
    })
  return new Process({ transport, headers, selector: { tag }, options: o, begin })
}

/**
 * Reads the end of a stream, which arrives with its last event or soon after. A connection whose answer was
 * read to the end is used for the next call; otherwise it is closed.
 */
async function untilEnd(rest: AsyncGenerator<unknown>, response: IncomingMessage): Promise<void> {
  const late = setTimeout(() => response.destroy(), STREAM_END_MS)
  // The command has ended, so a failure of its stream does not matter any more.
  await rest.next().catch(() => undefined)
  clearTimeout(late)
}

/** The guest's `not_found` for a process, as opposed to the server's for a sandbox. */
function isUnknownProcess(error: unknown): boolean {
  return isAgentPodError(error, 'not_found') && error.reason === 'guest'
}

function unknownProcess(): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'process.unknown',
    message: 'the sandbox has no such process',
    hint: '`agentpod logs --list NAME` lists its processes',
  })
}

function exitOf(end: Record<string, unknown>): Exit {
  const code = Number(end['exitCode'] ?? 0)
  const signal = typeof end['signal'] === 'string' ? end['signal'] : undefined
  return { exitCode: code, signal, oomKilled: end['oomKilled'] === true }
}
