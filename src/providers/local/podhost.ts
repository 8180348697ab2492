/**
 * The connection to podhost: started when nobody listens, asked in lines of JSON, and reconnected when it was restarted. What
 * fails because the connection broke is asked again, since every operation of podhost may be repeated.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { raceAbort } from '../../util/deadline.ts'
import { makeDirectory } from '../../util/make-directory.ts'
import { socketPath } from '../../util/socket-path.ts'
import { hostError } from './error.ts'

export interface PodhostOptions {
  readonly home: string
  readonly podhost: string
  /** How many blank shells podhost keeps ready; it keeps none when left out. */
  readonly shells?: number | undefined
  readonly podd: string
}

interface Pending {
  resolve(result: unknown): void
  reject(error: Error): void
}

const PROTOCOL = 1
const START_TIMEOUT_MS = 15_000
const GONE: ReadonlySet<string> = new Set(['podhost.gone', 'host.leaving'])
const LEAVES_WITHIN_MS = 20_000
const ASK_AGAIN_MS = 25
const LONGEST_LINE = 8 * 1024 * 1024

export class Podhost {
  readonly #options: PodhostOptions
  readonly #listeners = new Set<(event: Record<string, unknown>) => void>()
  #connection: Promise<Connection> | undefined
  #hasLeft = false
  /** Goes up with every podhost that is met: what one has said need not be true of the next. */
  generation = 0

  constructor(options: PodhostOptions) {
    this.#options = options
  }

  async call(op: string, args: Record<string, unknown>, o: CallOptions): Promise<Record<string, unknown>> {
    const work = async (): Promise<Record<string, unknown>> => {
      // One that is leaving takes connections and answers none of them; then a new one has to be started.
      for (const end = performance.now() + LEAVES_WITHIN_MS; ; await delay(ASK_AGAIN_MS)) {
        try {
          return await (await this.#connected()).call(op, args)
        } catch (error) {
          const isGone = isAgentPodError(error, 'unavailable') && GONE.has(error.reason)
          if (!isGone || this.#hasLeft || performance.now() > end) throw error
        }
      }
    }
    const timeout = AbortSignal.timeout(o.timeoutMs)
    return raceAbort(work(), o.signal ? AbortSignal.any([o.signal, timeout]) : timeout)
  }

  onEvent(listener: (event: Record<string, unknown>) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Tells podhost to leave, if there is one. It is not started again: whatever is asked from here on is `unavailable`. */
  async leave(o: CallOptions): Promise<void> {
    if (this.#hasLeft) return
    this.#hasLeft = true
    const work = async (): Promise<void> => {
      const connection = (await this.#connection) ?? this.#joined(await dial(this.#path))
      await connection?.call('shutdown', {})
    }
    await raceAbort(work(), AbortSignal.timeout(o.timeoutMs))
  }

  /** Closes the connection; podhost and the sandboxes live on. */
  async close(): Promise<void> {
    const connection = await this.#connection?.catch(() => undefined)
    connection?.close()
  }

  #connected(): Promise<Connection> {
    this.#connection ??= this.#open().catch((error) => {
      this.#connection = undefined
      throw error
    })
    return this.#connection
  }

  get #path(): string {
    return join(this.#options.home, 'run', 'podhost.sock')
  }

  async #open(): Promise<Connection> {
    if (this.#hasLeft) throw gone()
    return this.#joined((await dial(this.#path)) ?? (await this.#start(this.#path)))
  }

  #joined(socket: Socket): Connection
  #joined(socket: Socket | undefined): Connection | undefined
  #joined(socket: Socket | undefined): Connection | undefined {
    if (!socket) return undefined
    this.generation++
    return new Connection(socket, {
      onEvent: (event) => {
        for (const listener of this.#listeners) listener(event)
      },
      onGone: () => {
        this.#connection = undefined
      },
    })
  }

  async #start(path: string): Promise<Socket> {
    const { home, podhost, podd, shells = 0 } = this.#options
    const logFile = join(home, 'logs', 'podhost.log')
    makeDirectory(join(home, 'logs'), 0o700)
    const child = spawn(
      podhost,
      ['serve', '--home', home, '--podd', podd, '--log', logFile, '--shells', String(shells)],
      {
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe'],
        cwd: '/',
      },
    )
    try {
      await ready(child)
    } finally {
      child.stdout.destroy()
      child.stderr.destroy()
      child.unref()
    }
    const socket = await dial(path)
    if (socket) return socket
    throw startFailed('it does not listen')
  }
}

/** Waits for podhost's one line on stdout. What it says on stderr instead is why it could not start. */
function ready(child: ChildProcessByStdio<null, Readable, Readable>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(startFailed('it did not become ready')), START_TIMEOUT_MS)
    let said = ''
    child.stderr.on('data', (text: Buffer) => {
      said = (said + text).slice(-2000)
    })
    child.once('error', (error) => reject(startFailed(error.message)))
    child.stdout.once('data', () => resolve())
    child.stdout.once('close', () => {
      clearTimeout(timer)
      // Its last words may still be on their way.
      child.stderr.once('close', () => reject(startFailed(said.trim() || 'it said nothing')))
    })
  })
}

class Connection {
  readonly #socket: Socket
  readonly #pending = new Map<number, Pending>()
  readonly #onEvent: (event: Record<string, unknown>) => void
  #next = 1
  #rest = ''

  constructor(socket: Socket, o: { onEvent(event: Record<string, unknown>): void; onGone(): void }) {
    this.#socket = socket
    this.#onEvent = o.onEvent
    socket.setEncoding('utf8')
    // An idle connection to podhost keeps nobody alive; a pending call does.
    socket.unref()
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      o.onGone()
      for (const pending of this.#pending.values()) pending.reject(gone())
      this.#pending.clear()
    })
  }

  call(op: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(gone())
      const id = this.#next++
      if (this.#pending.size === 0) this.#socket.ref()
      this.#pending.set(id, { resolve: resolve as (result: unknown) => void, reject })
      this.#socket.write(`${JSON.stringify({ v: PROTOCOL, id, op, args })}\n`)
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(text: string): void {
    this.#rest += text
    const lines = this.#rest.split('\n')
    this.#rest = lines.pop() ?? ''
    if (this.#rest.length > LONGEST_LINE) this.#socket.destroy()
    for (const line of lines) this.#answer(JSON.parse(line) as Record<string, unknown>)
  }

  #answer(message: Record<string, unknown>): void {
    if (typeof message['event'] === 'string') {
      this.#onEvent(message)
      return
    }
    const pending = this.#pending.get(Number(message['id']))
    if (!pending) return
    this.#pending.delete(Number(message['id']))
    if (this.#pending.size === 0) this.#socket.unref()
    if (message['error']) pending.reject(hostError(message['error']))
    else pending.resolve(message['result'] ?? {})
  }
}

/** A connected socket, or undefined when nobody listens. */
function dial(path: string): Promise<Socket | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath(path))
    socket.once('connect', () => {
      socket.removeAllListeners('error')
      resolve(socket)
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(undefined)
      else reject(error)
    })
  })
}

function gone(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'podhost.gone',
    message: 'the connection to podhost broke',
  })
}

function startFailed(why: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'podhost.start',
    message: `podhost did not start: ${why}`,
    hint: 'see logs/podhost.log in the state directory',
  })
}
