/**
 * The connection to podhost: started when nobody listens, asked in lines of JSON, and reconnected when it was restarted. What
 * fails because the connection broke is asked again, since every operation of podhost may be repeated.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { raceAbort } from '../../util/deadline.ts'
import { dialSocket, LineClient } from '../../util/line-client.ts'
import { makeDirectory } from '../../util/make-directory.ts'
import { hostError } from './error.ts'

export interface PodhostOptions {
  readonly home: string
  readonly podhost: string
  /** How many blank shells podhost keeps ready; it keeps none when left out. */
  readonly shells?: number | undefined
  readonly podd: string
}

const PROTOCOL = 1
const START_TIMEOUT_MS = 15_000
const GONE: ReadonlySet<string> = new Set(['podhost.gone', 'host.leaving'])
const LEAVES_WITHIN_MS = 20_000
const ASK_AGAIN_MS = 25
/** A call that takes longer is no sign of trouble by itself: then podhost is asked something that costs nothing. */
const PATIENCE_MS = 5000
const ANSWER_MS = 8000

export class Podhost {
  readonly #options: PodhostOptions
  readonly #listeners = new Set<(event: Record<string, unknown>) => void>()
  #connection: Promise<LineClient> | undefined
  #hasLeft = false
  #isSilent = false
  #answers = 0
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
          return await this.#ask(await this.#connected(), op, args)
        } catch (error) {
          const isGone = isAgentPodError(error, 'unavailable') && GONE.has(error.reason)
          if (!isGone || this.#hasLeft || performance.now() > end) throw error
        }
      }
    }
    const timeout = AbortSignal.timeout(o.timeoutMs)
    return raceAbort(work(), o.signal ? AbortSignal.any([o.signal, timeout]) : timeout)
  }

  /** Asks, and gives up soon where podhost is stopped or hangs. */
  async #ask(
    connection: LineClient,
    op: string,
    args: Record<string, unknown>,
  ): Promise<Record<string, unknown>> {
    const answered = new AbortController()
    try {
      return await Promise.race([connection.call(op, args), this.#silence(connection, answered.signal)])
    } finally {
      answered.abort()
      this.#answers++
    }
  }

  /** Rejects when podhost answers nothing at all. */
  async #silence(connection: LineClient, signal: AbortSignal): Promise<never> {
    for (;;) {
      await delay(this.#isSilent ? 0 : PATIENCE_MS, undefined, { signal })
      const anything = connection.call('hello', {}).catch(() => undefined)
      const earlier = this.#answers
      const isLate = await Promise.race([
        anything.then(() => false),
        delay(this.#isSilent ? ANSWER_MS / 4 : ANSWER_MS, true, { signal }),
      ])
      // Behind many calls under way the question has to wait, but then some of them end.
      this.#isSilent = isLate && this.#answers === earlier
      if (this.#isSilent) throw silent()
    }
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
      const connection = (await this.#connection) ?? this.#joined(await dialSocket(this.#path))
      await connection?.call('shutdown', {})
    }
    await raceAbort(work(), AbortSignal.timeout(o.timeoutMs))
  }

  /** Closes the connection; podhost and the sandboxes live on. */
  async close(): Promise<void> {
    const connection = await this.#connection?.catch(() => undefined)
    connection?.close()
  }

  #connected(): Promise<LineClient> {
    this.#connection ??= this.#open().catch((error) => {
      this.#connection = undefined
      throw error
    })
    return this.#connection
  }

  get #path(): string {
    return join(this.#options.home, 'run', 'podhost.sock')
  }

  async #open(): Promise<LineClient> {
    if (this.#hasLeft) throw gone()
    return this.#joined((await dialSocket(this.#path)) ?? (await this.#start(this.#path)))
  }

  #joined(socket: Socket): LineClient
  #joined(socket: Socket | undefined): LineClient | undefined
  #joined(socket: Socket | undefined): LineClient | undefined {
    if (!socket) return undefined
    this.generation++
    return new LineClient(socket, {
      fields: { v: PROTOCOL },
      toError: hostError,
      gone,
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
    const socket = await dialSocket(path)
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

function gone(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'podhost.gone',
    message: 'the connection to podhost broke',
  })
}

function silent(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'podhost.silent',
    message: 'podhost does not answer: its process is stopped or hangs',
    hint: '`ps -C podhost -o pid,stat,args` shows it; `kill -CONT PID` lets one with state T go on',
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
