/**
 * A local socket for a sandbox on another machine: the egress process dials it, and each connection is
 * carried by a stream that the provider opens. It ends with the server; the egress process retries until the
 * next server is there, and nothing leaves the sandbox meanwhile.
 */
import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { type Duplex, pipeline } from 'node:stream'
import type { CallOptions } from '../core/call.ts'
import { AgentPodError } from '../core/error.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import { withTimeout } from '../util/deadline.ts'
import { socketPath } from '../util/file/socket-path.ts'

const DIAL_MS = 10_000

export interface RelayOptions {
  readonly path: string
  dial(o: CallOptions): Promise<Duplex>
  readonly log: Log
}

export class EgressRelay {
  readonly path: string
  readonly #options: RelayOptions
  readonly #server: Server
  readonly #open = new Set<Duplex>()
  readonly #ended = new AbortController()

  constructor(options: RelayOptions) {
    this.#options = options
    this.path = options.path
    // Left by a killed server.
    rmSync(this.path, { force: true })
    this.#server = createServer((socket) => void this.#carry(socket))
    this.#server.on('error', (error) => ignore(options.log, error, 'the egress socket of a sandbox failed'))
    // SECURITY: the directory belongs to the user alone, and so does the socket.
    this.#server.listen(socketPath(this.path), () => chmodSync(this.path, 0o600))
    this.#server.unref()
  }

  close(): void {
    this.#ended.abort()
    this.#server.close()
    for (const stream of this.#open) stream.destroy()
    rmSync(this.path, { force: true })
  }

  async #carry(socket: Socket): Promise<void> {
    this.#open.add(socket)
    socket.once('close', () => this.#open.delete(socket))
    socket.on('error', () => socket.destroy())
    try {
      const { signal } = this.#ended
      const stream = await this.#dial(signal)
      if (socket.destroyed || signal.aborted) {
        stream.destroy()
        socket.destroy()
        return
      }
      this.#open.add(stream)
      stream.once('close', () => this.#open.delete(stream))
      // An ended pipeline no longer listens, and an unhandled error would end the process.
      stream.on('error', () => stream.destroy())
      const end = (error: Error | null | undefined): void => {
        if (!error) return
        socket.destroy()
        stream.destroy()
      }
      pipeline(socket, stream, end)
      pipeline(stream, socket, end)
    } catch (error) {
      ignore(this.#options.log, error, 'an outgoing connection could not be carried')
      socket.destroy()
    }
  }

  /** A provider that exceeds the limit is given up; a stream that it opens later is closed. */
  async #dial(signal: AbortSignal): Promise<Duplex> {
    return withTimeout(
      DIAL_MS,
      signal,
      async (joined) => {
        const stream = await this.#options.dial({ timeoutMs: DIAL_MS, signal: joined })
        if (joined.aborted) stream.destroy()
        return stream
      },
      () =>
        new AgentPodError({
          code: 'deadline_exceeded',
          reason: 'provider.timeout',
          message: `the sandbox was not reached within ${DIAL_MS} ms`,
        }),
    )
  }
}
