/**
 * The connection to podhost: starts it if it does not run, sends requests as JSON lines, and reconnects after
 * a restart. A request that failed because the connection broke is sent again, since every operation of
 * podhost can be repeated.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { raceAbort } from '../../util/deadline.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { connectSocket, LineClient } from '../../util/stream/line-client.ts'
import { hostError } from './error.ts'

export interface PodhostOptions {
  readonly home: string
  readonly podhost: string
  /** How many blank shells podhost keeps ready; none by default. */
  readonly shells?: number | undefined
  readonly podd: string
  /** Where gVisor's program is, or will be. */
  readonly runsc?: string | undefined
  /** Where QEMU, the kernel of virtual machines and their first program are, or will be. */
  readonly qemu?: string | undefined
  /** The program that runs them in place of QEMU, and its files. */
  readonly vmm?: string | undefined
  readonly cloudHypervisor?: string | undefined
  readonly firecracker?: string | undefined
  readonly jailer?: string | undefined
  readonly kernel?: string | undefined
  readonly vminit?: string | undefined
}

const PROTOCOL = 1
const START_TIMEOUT_MS = 15_000
const GONE: ReadonlySet<string> = new Set(['podhost.gone', 'host.leaving'])
const LEAVES_WITHIN_MS = 20_000
const ASK_AGAIN_MS = 25
/** If a call takes longer than this, podhost is pinged to find out whether it still answers. */
const PATIENCE_MS = 5000
const ANSWER_MS = 8000

export class Podhost {
  readonly #options: PodhostOptions
  readonly #listeners = new Set<(event: Record<string, unknown>) => void>()
  #connection: Promise<LineClient> | undefined
  #left = false
  #isSilent = false
  #answers = 0
  /** Counts the podhost processes: answers of an earlier one may not hold for the next. */
  generation = 0

  constructor(options: PodhostOptions) {
    this.#options = options
  }

  /** Whether podhost was told to exit. */
  get hasLeft(): boolean {
    return this.#left
  }

  async call(op: string, args: Record<string, unknown>, o: CallOptions): Promise<Record<string, unknown>> {
    const work = async (): Promise<Record<string, unknown>> => {
      // A podhost that is exiting accepts connections without answering; then a new one must be started.
      for (const end = performance.now() + LEAVES_WITHIN_MS; ; await delay(ASK_AGAIN_MS)) {
        try {
          return await this.#ask(await this.#connected(), op, args)
        } catch (error) {
          const isGone = isAgentPodError(error, 'unavailable') && GONE.has(error.reason)
          if (!isGone || this.#left || performance.now() > end) throw error
        }
      }
    }
    const timeout = AbortSignal.timeout(o.timeoutMs)
    return raceAbort(work(), o.signal ? AbortSignal.any([o.signal, timeout]) : timeout)
  }

  /** Sends a request, and gives up soon if podhost is stopped or hangs. */
  async #ask(
    connection: LineClient,
    op: string,
    args: Record<string, unknown>,
  ): Promise<Record<string, unknown>> {
    const silence = this.#watchSilence(connection)
    try {
      return await Promise.race([connection.call(op, args), silence.failure])
    } finally {
      silence.stop()
      this.#answers++
    }
  }

  /**
   * The failure rejects if podhost does not answer at all. It uses plain timers, because aborting a signal
   * makes an error with a stack trace, for every call.
   */
  #watchSilence(connection: LineClient): { readonly failure: Promise<never>; stop(): void } {
    const { promise, reject } = Promise.withResolvers<never>()
    let timer: NodeJS.Timeout | undefined
    let isStopped = false
    const wait = (): void => {
      if (!isStopped) timer = setTimeout(() => void ping(), this.#isSilent ? 0 : PATIENCE_MS)
    }
    const ping = async (): Promise<void> => {
      const earlier = this.#answers
      const isLate = await Promise.race([
        connection.call('hello', {}).then(
          () => false,
          () => false,
        ),
        delay(this.#isSilent ? ANSWER_MS / 4 : ANSWER_MS, true, { ref: false }),
      ])
      if (isStopped) return
      // Behind many pending calls the ping has to wait, but then some of them finish.
      this.#isSilent = isLate && this.#answers === earlier
      if (this.#isSilent) reject(silent())
      else wait()
    }
    wait()
    const stop = (): void => {
      isStopped = true
      clearTimeout(timer)
    }
    return { failure: promise, stop }
  }

  onEvent(listener: (event: Record<string, unknown>) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Tells podhost to exit, if it runs. It is not started again: later calls fail with `unavailable`. */
  async leave(o: CallOptions): Promise<void> {
    if (this.#left) return
    this.#left = true
    const work = async (): Promise<void> => {
      const connection = (await this.#connection) ?? this.#joined(await connectSocket(this.#path))
      await connection?.call('shutdown', {})
    }
    await raceAbort(work(), AbortSignal.timeout(o.timeoutMs))
  }

  /** Closes the connection; podhost and the sandboxes keep running. */
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
    if (this.#left) throw gone()
    return this.#joined((await connectSocket(this.#path)) ?? (await this.#start(this.#path)))
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
    const {
      home,
      podhost,
      podd,
      runsc,
      qemu,
      kernel,
      vminit,
      vmm,
      firecracker,
      jailer,
      shells = 0,
    } = this.#options
    const vmmFiles = { vmm, 'cloud-hypervisor': this.#options.cloudHypervisor, firecracker, jailer }
    const logFile = join(home, 'logs', 'podhost.log')
    makeDirectory(join(home, 'logs'), 0o700)
    const flags = ['--home', home, '--podd', podd, '--log', logFile, '--shells', String(shells)]
    for (const [name, path] of Object.entries({ runsc, qemu, kernel, vminit, ...vmmFiles }))
      if (path !== undefined) flags.push(`--${name}`, path)
    const child = spawn(podhost, ['serve', ...flags], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: '/',
    })
    try {
      await ready(child)
    } finally {
      child.stdout.destroy()
      child.stderr.destroy()
      child.unref()
    }
    const socket = await connectSocket(path)
    if (socket) return socket
    throw startFailed('it does not listen')
  }
}

/** Waits for podhost's one line on stdout. If podhost ends instead, its last line on stderr is the reason. */
function ready(child: ChildProcessByStdio<null, Readable, Readable>): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(startFailed('it did not become ready')), START_TIMEOUT_MS)
    const settle = (end: () => void): void => {
      clearTimeout(timer)
      end()
    }
    let written = ''
    child.stderr.on('data', (text: Buffer) => {
      written = (written + text).slice(-2000)
    })
    child.once('error', (error) => settle(() => reject(startFailed(error.message))))
    child.stdout.once('data', () => settle(resolve))
    // Both streams are read to their end by then, whichever ends first.
    child.once('close', () => settle(() => reject(startFailed(written.trim() || 'it wrote no reason'))))
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
    hint: '`ps -C podhost -o pid,stat,args` shows it; `kill -CONT PID` continues a process in state T',
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
