/** Idle connections to the socket of podd, so that a program inside never waits for one to be opened. */
import type { Socket } from 'node:net'
import type { Clock } from '../../util/clock.ts'
import { socketPath } from '../../util/file/socket-path.ts'
import { dialSocket } from '../reach/dial.ts'
import { LONGEST_HEADER } from './header-line.ts'
import { peekStream } from './peek-stream.ts'

export interface PoddConnectionPoolOptions {
  readonly path: string
  readonly clock: Clock
  /**
   * Called with the first byte, when the connection starts to count for the sandbox. Returns undefined if the
   * sandbox has no room for it.
   */
  readonly onUsed: (socket: Socket) => OnHeaderLine | undefined
}

/** Receives the line that podd wrote, without its end; undefined if there was no complete line. */
export type OnHeaderLine = (line: Buffer | undefined) => void

export const IDLE_CONNECTIONS = 8
const SHORTEST_RETRY_MS = 50
const LONGEST_RETRY_MS = 1000
const LINE_MS = 15_000
/**
 * SECURITY: CP-16. podd writes a line at once. A hostile podd that leaves lines unfinished holds at most this
 * many.
 */
export const MOST_UNFINISHED_LINES = 64
const DIAL_MS = 5000
const FOREVER_MS = 2 ** 31 - 1

export class PoddConnectionPool {
  readonly #options: PoddConnectionPoolOptions
  readonly #idle = new Set<Socket>()
  readonly #ended = new AbortController()
  /** How many are being dialed. */
  #dialing = 0
  #unfinishedLines = 0
  #failures = 0
  #cancelRetry: (() => void) | undefined

  constructor(options: PoddConnectionPoolOptions) {
    this.#options = options
    this.#fill()
  }

  get size(): number {
    return this.#idle.size
  }

  /** Whether podd accepted the last connections. */
  get isReachable(): boolean {
    return this.#idle.size > 0
  }

  close(): void {
    this.#ended.abort(new Error('the sandbox is closed'))
    this.#cancelRetry?.()
    for (const socket of this.#idle) socket.destroy()
  }

  /**
   * Takes over a connection that podd gave to the server before this process ran. It arrives at a socket of
   * the server, and is treated as any other.
   */
  carry(path: string): void {
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(DIAL_MS)])
    dialSocket({ path: socketPath(path) }, signal).then(
      (socket) => {
        this.#idle.add(socket)
        socket.on('error', () => socket.destroy())
        void this.#waitUntilUsed(socket).then(() => this.#idle.delete(socket))
      },
      // The server closes the connection that it holds.
      () => undefined,
    )
  }

  #fill(): void {
    if (this.#ended.signal.aborted || this.#cancelRetry) return
    while (this.#idle.size + this.#dialing < IDLE_CONNECTIONS) {
      this.#dialing++
      void this.#dial()
    }
  }

  async #dial(): Promise<void> {
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(DIAL_MS)])
    try {
      const socket = await dialSocket({ path: socketPath(this.#options.path) }, signal)
      this.#dialing--
      this.#addIdle(socket)
    } catch {
      this.#dialing--
      this.#retryLater()
    }
  }

  /** podd may not have started yet, or may be restarting. */
  #retryLater(): void {
    if (this.#cancelRetry || this.#ended.signal.aborted) return
    const ms = Math.min(SHORTEST_RETRY_MS * 2 ** this.#failures++, LONGEST_RETRY_MS)
    this.#cancelRetry = this.#options.clock.after(ms, () => {
      this.#cancelRetry = undefined
      this.#fill()
    })
  }

  #addIdle(socket: Socket): void {
    this.#idle.add(socket)
    const idleSince = this.#options.clock.now()
    socket.on('error', () => socket.destroy())
    void this.#waitUntilUsed(socket).then((isUsed) => {
      this.#idle.delete(socket)
      const isBrief = this.#options.clock.now() - idleSince < LONGEST_RETRY_MS
      // If podd closes a connection immediately it is refusing us: back off before dialing again.
      if (!isUsed && isBrief) return this.#retryLater()
      this.#failures = 0
      this.#fill()
    })
  }

  /**
   * Returns whether podd used the connection. Its place in the pool is free as soon as the first byte
   * arrives.
   */
  async #waitUntilUsed(socket: Socket): Promise<boolean> {
    const { clock, onUsed } = this.#options
    const first = await peekStream(socket, { clock, limit: 1, withinMs: FOREVER_MS, judge: () => true })
    const onLine = first.value && this.#unfinishedLines < MOST_UNFINISHED_LINES ? onUsed(socket) : undefined
    if (!onLine) {
      socket.destroy()
      return false
    }
    void this.#readLine(socket, onLine)
    return true
  }

  async #readLine(socket: Socket, onLine: OnHeaderLine): Promise<void> {
    this.#unfinishedLines++
    const { value: end, isEnded } = await peekStream(socket, {
      clock: this.#options.clock,
      limit: LONGEST_HEADER + 1,
      withinMs: LINE_MS,
      judge: (bytes) => {
        const at = bytes.indexOf('\n')
        return at < 0 ? undefined : at
      },
    })
    this.#unfinishedLines--
    if (isEnded || end === undefined || end > LONGEST_HEADER) return onLine(undefined)
    const line = socket.read(end + 1) as Buffer | null
    onLine(line?.subarray(0, end))
  }
}
