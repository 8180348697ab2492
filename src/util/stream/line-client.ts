/**
 * Calls over a socket with JSON lines. Each call has an id; answers come in any order, with events in
 * between.
 */
import { connect, type Socket } from 'node:net'
import { socketPath } from '../file/socket-path.ts'

export interface LineClientOptions {
  /** Added to every request besides `id`, `op` and `args`. */
  readonly fields?: Readonly<Record<string, unknown>> | undefined
  onEvent(event: Record<string, unknown>): void
  onGone(): void
  /** Turns the error of an answer into an Error. */
  toError(value: unknown): Error
  /** The error of calls that were pending when the connection closed. */
  gone(): Error
}

interface Pending {
  resolve(result: Record<string, unknown>): void
  reject(error: Error): void
}

const LONGEST_LINE = 8 * 1024 * 1024

export class LineClient {
  readonly #socket: Socket
  readonly #options: LineClientOptions
  readonly #pending = new Map<number, Pending>()
  #next = 1
  #rest = ''

  constructor(socket: Socket, options: LineClientOptions) {
    this.#socket = socket
    this.#options = options
    socket.setEncoding('utf8')
    // An idle connection does not keep the process alive; a pending call does.
    socket.unref()
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      options.onGone()
      for (const pending of this.#pending.values()) pending.reject(options.gone())
      this.#pending.clear()
    })
  }

  call(op: string, args: object): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(this.#options.gone())
      const id = this.#next++
      if (this.#pending.size === 0) this.#socket.ref()
      this.#pending.set(id, { resolve, reject })
      this.#socket.write(`${JSON.stringify({ ...this.#options.fields, id, op, args })}\n`)
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
    for (const line of lines) {
      const message = parsed(line)
      // A peer that sends a malformed line is disconnected.
      if (!message) return void this.#socket.destroy()
      this.#answer(message)
    }
  }

  #answer(message: Record<string, unknown>): void {
    if (typeof message['event'] === 'string') {
      this.#options.onEvent(message)
      return
    }
    const pending = this.#pending.get(Number(message['id']))
    if (!pending) return
    this.#pending.delete(Number(message['id']))
    if (this.#pending.size === 0) this.#socket.unref()
    if (message['error']) pending.reject(this.#options.toError(message['error']))
    else pending.resolve((message['result'] ?? {}) as Record<string, unknown>)
  }
}

function parsed(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Connects to a unix socket; undefined if nothing listens there. */
export function connectSocket(path: string): Promise<Socket | undefined> {
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
