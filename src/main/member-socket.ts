/**
 * The socket on which the egress process asks for connections between members of a group. The engine decides
 * from its records and dials; the bytes pass through here. See spec/egress-protocol.md.
 */
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { type Duplex, pipeline } from 'node:stream'
import * as z from 'zod'
import { asAgentPodError, invalid } from '../core/error.ts'
import { parseSandboxId } from '../core/id.ts'
import type { MemberCall } from '../engine/groups/reach-member.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import { socketPath } from '../util/file/socket-path.ts'
import { toPrintableAscii } from '../util/hidden-characters.ts'
import { readOneLine } from '../util/stream/read-one-line.ts'

export interface MemberSocketOptions {
  readonly path: string
  dial(call: MemberCall, signal: AbortSignal): Promise<Duplex>
  readonly log: Log
}

const LONGEST_LINE = 1024
const LINE_MS = 5000
/** Of all owners together; the engine limits each owner and each member. */
const MOST_OPEN = 8192
const request = z.strictObject({
  v: z.literal(1),
  from: z.string().max(64),
  member: z.string().min(1).max(253),
  port: z.int().min(1).max(65_535),
})

export class MemberSocket {
  readonly #options: MemberSocketOptions
  readonly #server: Server
  readonly #open = new Set<Duplex>()
  readonly #ended = new AbortController()

  constructor(options: MemberSocketOptions) {
    this.#options = options
    const { path, log } = options
    // Left by a killed server.
    rmSync(path, { force: true })
    this.#server = createServer({ allowHalfOpen: true }, (socket) => void this.#serve(socket))
    this.#server.on('error', (error) => ignore(log, error, 'the socket for members of groups failed'))
    // SECURITY: the directory belongs to the user alone, and so does the socket.
    this.#server.listen(socketPath(path), () => chmodSync(path, 0o600))
    this.#server.maxConnections = MOST_OPEN
    this.#server.unref()
  }

  close(): void {
    this.#ended.abort()
    this.#server.close()
    for (const stream of this.#open) stream.destroy()
    rmSync(this.#options.path, { force: true })
  }

  async #serve(socket: Socket): Promise<void> {
    this.#hold(socket)
    const left = new AbortController()
    socket.once('close', () => left.abort())
    try {
      const within = AbortSignal.any([left.signal, AbortSignal.timeout(LINE_MS)])
      const call = readCall(await readOneLine(socket, { limit: LONGEST_LINE, signal: within }))
      const stream = await this.#options.dial(call, AbortSignal.any([left.signal, this.#ended.signal]))
      this.#hold(stream)
      if (socket.destroyed || this.#ended.signal.aborted) return void stream.destroy()
      socket.write('ok\n')
      const end = (error: Error | null | undefined): void => {
        if (!error) return
        socket.destroy()
        stream.destroy()
      }
      pipeline(socket, stream, end)
      pipeline(stream, socket, end)
    } catch (error) {
      // The text reaches programs inside, and an internal error may name files of this machine.
      const { code, message } = asAgentPodError(error)
      socket.end(`${code === 'internal' ? 'the connection failed' : toPrintableAscii(message)}\n`)
    }
  }

  #hold(stream: Duplex): void {
    this.#open.add(stream)
    stream.once('close', () => this.#open.delete(stream))
    // An ended pipeline no longer listens, and an unhandled error would end the process.
    stream.on('error', () => stream.destroy())
  }
}

function readCall(line: string | undefined): MemberCall {
  try {
    const { from, member, port } = request.parse(JSON.parse(line ?? ''))
    return { from: parseSandboxId(from), member, port }
  } catch {
    throw malformed()
  }
}

function malformed(): Error {
  return invalid('control.malformed', 'the request for a member does not follow the protocol')
}
