/** Connections that wait at podd's socket, so that a program inside never waits for one to be made. */
import type { Socket } from 'node:net'
import type { Clock } from '../util/clock.ts'
import { socketPath } from '../util/socket-path.ts'
import { dialSocket } from './dial.ts'
import { LONGEST_HEADER } from './header-line.ts'
import { peek } from './intake.ts'

export interface ParkOptions {
  readonly path: string
  readonly clock: Clock
  /**
   * Asked with the first byte, when the connection counts as the sandbox's own. Undefined where there is no room; else what takes the line that
   * podd has written, without its end, or undefined where it was none.
   */
  readonly onTaken: (socket: Socket) => TakeLine | undefined
}

export type TakeLine = (line: Buffer | undefined) => void

export const PARKED = 8
const SHORTEST_RETRY_MS = 50
const LONGEST_RETRY_MS = 1000
const LINE_MS = 15_000
/** podd writes a line at once. SECURITY: CP-16. A hostile one that begins many lines and ends none holds no more than these. */
export const MOST_BEGUN = 64
const DIAL_MS = 5000
const FOREVER_MS = 2 ** 31 - 1

export class Park {
  readonly #options: ParkOptions
  readonly #parked = new Set<Socket>()
  readonly #ended = new AbortController()
  /** How many are being dialled. */
  #underWay = 0
  /** How many have a line that has begun and not ended. */
  #begun = 0
  #failures = 0
  #cancelRetry: (() => void) | undefined

  constructor(options: ParkOptions) {
    this.#options = options
    this.#fill()
  }

  get size(): number {
    return this.#parked.size
  }

  /** Whether podd was there when it was last dialled. */
  get isReachable(): boolean {
    return this.#parked.size > 0
  }

  close(): void {
    this.#ended.abort(new Error('the link is closed'))
    this.#cancelRetry?.()
    for (const socket of this.#parked) socket.destroy()
  }

  #fill(): void {
    if (this.#ended.signal.aborted || this.#cancelRetry) return
    while (this.#parked.size + this.#underWay < PARKED) {
      this.#underWay++
      void this.#dial()
    }
  }

  async #dial(): Promise<void> {
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(DIAL_MS)])
    try {
      const socket = await dialSocket({ path: socketPath(this.#options.path) }, signal)
      this.#underWay--
      this.#park(socket)
    } catch {
      this.#underWay--
      this.#retryLater()
    }
  }

  /** podd may not be there yet, or be on its way back. */
  #retryLater(): void {
    if (this.#cancelRetry || this.#ended.signal.aborted) return
    const ms = Math.min(SHORTEST_RETRY_MS * 2 ** this.#failures++, LONGEST_RETRY_MS)
    this.#cancelRetry = this.#options.clock.after(ms, () => {
      this.#cancelRetry = undefined
      this.#fill()
    })
  }

  #park(socket: Socket): void {
    this.#parked.add(socket)
    const parkedAt = this.#options.clock.now()
    socket.on('error', () => socket.destroy())
    void this.#wait(socket).then((isTaken) => {
      this.#parked.delete(socket)
      const isBrief = this.#options.clock.now() - parkedAt < LONGEST_RETRY_MS
      // One that podd closes at once is a no, and is not asked for again in a hurry.
      if (!isTaken && isBrief) return this.#retryLater()
      this.#failures = 0
      this.#fill()
    })
  }

  /** Says whether podd took it: its place is free as soon as the first byte is there. */
  async #wait(socket: Socket): Promise<boolean> {
    const { clock, onTaken } = this.#options
    const first = await peek(socket, { clock, limit: 1, withinMs: FOREVER_MS, judge: () => true })
    const takeLine = first.value && this.#begun < MOST_BEGUN ? onTaken(socket) : undefined
    if (!takeLine) {
      socket.destroy()
      return false
    }
    void this.#readLine(socket, takeLine)
    return true
  }

  async #readLine(socket: Socket, takeLine: TakeLine): Promise<void> {
    this.#begun++
    const { value: end, isEnded } = await peek(socket, {
      clock: this.#options.clock,
      limit: LONGEST_HEADER + 1,
      withinMs: LINE_MS,
      judge: (bytes) => {
        const at = bytes.indexOf('\n')
        return at < 0 ? undefined : at
      },
    })
    this.#begun--
    if (isEnded || end === undefined || end > LONGEST_HEADER) return takeLine(undefined)
    const line = socket.read(end + 1) as Buffer | null
    takeLine(line?.subarray(0, end))
  }
}
