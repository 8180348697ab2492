/**
 * One connection to the socket of podd that waits for the first program, while no egress process runs. A
 * sandbox that may reach nothing mostly never connects anywhere, and then needs no process to refuse it.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../util/clock.ts'
import { connectSocket } from '../util/stream/line-client.ts'

export interface AwaitedConnectionOptions {
  readonly path: string
  readonly clock: Clock
  /** Called once, when a program connects. The bytes can still be read. */
  readonly onUsed: (socket: Socket) => void
}

const FIRST_RETRY_MS = 50
const LAST_RETRY_MS = 1000

export class AwaitedConnection {
  readonly #options: AwaitedConnectionOptions
  #socket: Socket | undefined
  #isOver = false
  #waitMs = FIRST_RETRY_MS
  #cancelRetry: () => void = () => undefined

  constructor(options: AwaitedConnectionOptions) {
    this.#options = options
    void this.#dial()
  }

  get path(): string {
    return this.#options.path
  }

  close(): void {
    this.#isOver = true
    this.#cancelRetry()
    this.#socket?.destroy()
  }

  /** podd may not have started yet, or may be gone. */
  async #dial(): Promise<void> {
    const socket = await connectSocket(this.path).catch(() => undefined)
    if (!socket) return this.#retryLater()
    if (this.#isOver) return void socket.destroy()
    this.#socket = socket
    socket.allowHalfOpen = true
    const onReadable = (): void => {
      // At its end the stream is readable too, and has no bytes.
      if (this.#isOver || socket.readableLength === 0) return
      this.#isOver = true
      socket.off('readable', onReadable).off('end', onEnd).off('close', onClose)
      this.#options.onUsed(socket)
    }
    const onEnd = (): void => void socket.destroy()
    const onClose = (): void => this.#retryLater()
    socket.on('error', () => socket.destroy())
    socket.once('end', onEnd)
    socket.once('close', onClose)
    socket.on('readable', onReadable)
  }

  #retryLater(): void {
    if (this.#isOver) return
    this.#socket = undefined
    this.#cancelRetry = this.#options.clock.after(this.#waitMs, () => void this.#dial())
    this.#waitMs = Math.min(this.#waitMs * 2, LAST_RETRY_MS)
  }
}
