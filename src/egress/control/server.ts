/** The socket on which the server manages sandboxes and receives records. See spec/egress-protocol.md. */
import { chmodSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import type { NetCounts, NetRecord, UsageRecord } from '../../core/network.ts'
import type { Log } from '../../telemetry/log.ts'
import { socketPath } from '../../util/file/socket-path.ts'
import type { LinkSpec } from './link-spec.ts'
import {
  type ControlMessage,
  parseCarried,
  parseLinkSpec,
  parseMessage,
  parseNothing,
  parseSandbox,
} from './message.ts'

/** The operations that the server can request. */
export interface Controlled {
  readonly links: readonly string[]
  open(spec: LinkSpec): void
  close(sandbox: string): void
  counts(sandbox: string): NetCounts
  /** Dials the socket once, for a connection that podd gave to the server before this process ran. */
  carry(sandbox: string, socket: string): void
  /** A server has connected. */
  greet(): void
}

export interface ControlOptions {
  readonly path: string
  readonly version: string
  readonly log: Log
  readonly controlled: Controlled
  readonly onShutdown: () => void
  /** The last server has disconnected. */
  readonly onAlone: () => void
}

const LONGEST_LINE = 16 * 1024 * 1024
/** Most bytes that are buffered for a server that does not read. */
const MOST_UNREAD = 16 * 1024 * 1024

export class ControlServer {
  readonly #options: ControlOptions
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** The most recent connection. */
  #last: Socket | undefined

  constructor(options: ControlOptions) {
    this.#options = options
    this.#server = createServer((socket) => this.#accept(socket))
  }

  get isServed(): boolean {
    return this.#sockets.size > 0
  }

  /** Throws if another process is already listening. */
  async listen(): Promise<void> {
    const { path } = this.#options
    if (await isListening(path)) throw inUse()
    rmSync(path, { force: true })
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      const before = process.umask(0o177)
      this.#server.listen(socketPath(path), resolve)
      process.umask(before)
    })
    chmodSync(path, 0o600)
  }

  /** False if no server received the records. */
  push(event: 'records' | 'usage', records: readonly (NetRecord | UsageRecord)[]): boolean {
    const socket = this.#last
    if (!socket?.writable || socket.writableLength > MOST_UNREAD) return false
    socket.write(`${JSON.stringify({ event, records })}\n`)
    return true
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroySoon()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  #accept(socket: Socket): void {
    const { controlled, onAlone } = this.#options
    this.#sockets.add(socket)
    this.#last = socket
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      this.#sockets.delete(socket)
      if (this.#last === socket) this.#last = [...this.#sockets].at(-1)
      if (this.#sockets.size === 0) onAlone()
    })
    readLines(socket, (line) => this.#answer(socket, line))
    controlled.greet()
  }

  #answer(socket: Socket, line: string): void {
    let message: ControlMessage
    try {
      message = parseMessage(line)
    } catch {
      // There is no valid id to answer with.
      this.#options.log.warn('closed a control connection that does not follow the protocol')
      return void socket.destroy()
    }
    const { id, op } = message
    try {
      socket.write(`${JSON.stringify({ id, result: this.#do(message) })}\n`)
      if (op === 'shutdown') this.#options.onShutdown()
    } catch (error) {
      const { code, reason, message: text, hint } = asAgentPodError(error)
      socket.write(`${JSON.stringify({ id, error: { code, reason, message: text, hint } })}\n`)
    }
  }

  #do({ op, args }: ControlMessage): unknown {
    const { controlled, version } = this.#options
    switch (op) {
      case 'hello':
        parseNothing(args)
        return { version, pid: process.pid, links: controlled.links }
      case 'open':
        controlled.open(parseLinkSpec(args))
        return {}
      case 'close':
        controlled.close(parseSandbox(args))
        return {}
      case 'counts':
        return controlled.counts(parseSandbox(args))
      case 'carry': {
        const { sandbox, socket } = parseCarried(args)
        controlled.carry(sandbox, socket)
        return {}
      }
      case 'shutdown':
        return parseNothing(args)
      default:
        throw new AgentPodError({
          code: 'unsupported',
          reason: 'control.op',
          message: 'unknown operation',
        })
    }
  }
}

/** Reads lines of UTF-8. A line that is too long ends the connection. */
function readLines(socket: Socket, onLine: (line: string) => void): void {
  let parts: Buffer[] = []
  let size = 0
  socket.on('data', (chunk: Buffer) => {
    let rest = chunk
    for (let end = rest.indexOf(10); end >= 0 && !socket.destroyed; end = rest.indexOf(10)) {
      const line = Buffer.concat([...parts, rest.subarray(0, end)])
      ;[parts, size, rest] = [[], 0, rest.subarray(end + 1)]
      if (line.length > LONGEST_LINE) return void socket.destroy()
      onLine(line.toString('utf8'))
    }
    if (rest.length === 0) return
    parts.push(rest)
    size += rest.length
    if (size > LONGEST_LINE) socket.destroy()
  })
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath(path))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

function inUse(): AgentPodError {
  return new AgentPodError({
    code: 'already_exists',
    reason: 'egress.running',
    message: 'an egress process is already listening on this socket',
  })
}
