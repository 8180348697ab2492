/** Opens byte streams to podd: a unix socket for each, or HTTP/2 over one stream that the provider dials. */
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import type { Duplex } from 'node:stream'
import { AgentPodError } from '../../core/error.ts'
import { socketPath } from '../../util/file/socket-path.ts'
import { Http2Transport } from './http2-transport.ts'
import { openMultiplexed } from './multiplexed-connection.ts'

/** `api`: podd's HTTP/1.1 server. `egress`: a connection that waits for outgoing traffic of the sandbox. */
export type PoddDoor = 'api' | 'egress'

/** Opens byte streams to podd. Its creator must close it. */
export interface PoddStreams {
  /**
   * The signal only aborts the opening; `destroy` closes an open stream. `unavailable` if podd cannot be
   * reached.
   */
  open(door: PoddDoor, signal: AbortSignal): Promise<Duplex>
  /** Closes all open streams. The sandbox keeps running, and a later `open` works again. Idempotent. */
  close(): void
  /**
   * The path, if each `api` stream is a unix socket. Node's HTTP client then connects to it directly, which
   * is faster.
   */
  readonly socket?: string | undefined
}

/** A unix socket for each stream. The egress process uses a separate socket. */
export function socketStreams(paths: { readonly api: string }): PoddStreams {
  const path = socketPath(paths.api)
  return {
    socket: path,
    open(door, signal) {
      if (door !== 'api') return Promise.reject(noDoor(door))
      return new Promise((resolve, reject) => {
        signal.throwIfAborted()
        const socket = connectSocket({ path, signal })
        socket.once('connect', () => resolve(socket))
        socket.on('error', (error) => reject(unreached(error)))
      })
    },
    close() {},
  }
}

/**
 * All streams over one connection, dialled for the first stream and again after it broke, one dial at a time.
 */
export function multiplexedStreams(dial: (signal: AbortSignal) => Promise<Duplex>): PoddStreams {
  return new MultiplexedStreams(dial)
}

const DIAL_MS = 30_000
/** The connection counts as lost if podd takes longer to answer a ping. */
const PING_MS = 10_000
/** A connection without streams is closed after this long. */
const IDLE_MS = 30_000
/** podd accepts no more. */
const MOST_STREAMS = 2048
const STREAM_WINDOW_BYTES = 256 * 1024
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
/** A record of podd with its header fits into one frame. */
const FRAME_BYTES = 68 * 1024

class MultiplexedStreams implements PoddStreams {
  readonly #dial: (signal: AbortSignal) => Promise<Duplex>
  #connection: Connection | undefined
  #dialing: { readonly connection: Promise<Connection>; readonly abort: AbortController } | undefined

  constructor(dial: (signal: AbortSignal) => Promise<Duplex>) {
    this.#dial = dial
  }

  /** A lost connection is dialled again once: a stream that podd has not answered has transferred nothing. */
  async open(door: PoddDoor, signal: AbortSignal): Promise<Duplex> {
    const first = await this.#current(signal)
    try {
      return await first.open(door, signal)
    } catch (error) {
      if (signal.aborted || !first.isOver) throw error
    }
    return (await this.#current(signal)).open(door, signal)
  }

  close(): void {
    this.#dialing?.abort.abort(unreached(new Error('closed')))
    this.#dialing = undefined
    this.#connection?.destroy()
    this.#connection = undefined
  }

  /** A caller that gives up does not abort the dial for the others. */
  async #current(signal: AbortSignal): Promise<Connection> {
    signal.throwIfAborted()
    if (this.#connection && !this.#connection.isOver) return this.#connection
    this.#dialing ??= this.#startDial()
    return await orAborted(this.#dialing.connection, signal)
  }

  #startDial() {
    const abort = new AbortController()
    const connection = this.#dialOnce(abort.signal)
    const dialing = { connection, abort }
    const settle = (): void => {
      if (this.#dialing === dialing) this.#dialing = undefined
    }
    connection.then(settle, settle)
    return dialing
  }

  async #dialOnce(abort: AbortSignal): Promise<Connection> {
    const signal = AbortSignal.any([abort, AbortSignal.timeout(DIAL_MS)])
    const dialled = this.#dial(signal)
    try {
      this.#connection = new Connection(await orAborted(dialled, signal))
    } catch (error) {
      // A stream that arrives after all callers gave up is closed.
      dialled.then((late) => late.destroy()).catch(() => undefined)
      throw unreached(error)
    }
    return this.#connection
  }
}

/** One HTTP/2 connection. */
class Connection {
  readonly #session: ClientHttp2Session
  #streams = 0
  #idle: NodeJS.Timeout | undefined
  #pinging = false

  constructor(stream: Duplex) {
    const transport = new Http2Transport(stream, () => this.#session.destroy())
    this.#session = connectHttp2('http://podd', {
      createConnection: () => transport,
      peerMaxConcurrentStreams: MOST_STREAMS,
      // In megabytes; enough for the windows of all streams.
      maxSessionMemory: (MOST_STREAMS * STREAM_WINDOW_BYTES) / 2 ** 20,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES, maxFrameSize: FRAME_BYTES },
    })
    this.#session.once('connect', () => this.#session.setLocalWindowSize(CONNECTION_WINDOW_BYTES))
    // Open streams notice it by their own end.
    this.#session.on('error', () => undefined)
    this.#session.once('close', () => {
      clearTimeout(this.#idle)
      transport.destroy()
    })
  }

  get isOver(): boolean {
    return this.#session.closed || this.#session.destroyed
  }

  async open(door: PoddDoor, signal: AbortSignal): Promise<Duplex> {
    clearTimeout(this.#idle)
    this.#streams++
    try {
      const stream = await openMultiplexed(this.#session, door, signal)
      stream.once('close', () => this.#leave())
      return stream
    } catch (error) {
      this.#leave()
      if (signal.aborted) this.#checkAlive()
      throw signal.aborted ? signal.reason : unreached(error)
    }
  }

  destroy(): void {
    this.#session.destroy()
  }

  #leave(): void {
    this.#streams--
    if (this.#streams > 0 || this.isOver) return
    this.#idle = setTimeout(() => this.#session.destroy(), IDLE_MS).unref()
  }

  /**
   * Called after a call timed out: if podd does not answer a ping, the connection is closed and the next call
   * dials.
   */
  #checkAlive(): void {
    if (this.isOver || this.#pinging) return
    const late = setTimeout(() => this.#session.destroy(), PING_MS).unref()
    this.#pinging = this.#session.ping(() => {
      clearTimeout(late)
      this.#pinging = false
    })
  }
}

async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function unreached(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'guest.unreachable',
    message: 'cannot connect to the sandbox',
    hint: '`agentpod ls` shows whether it is still running',
    cause,
  })
}

function noDoor(door: string): AgentPodError {
  return new AgentPodError({
    code: 'internal',
    reason: 'guest.protocol',
    message: `podd has no ${door} stream on a unix socket`,
  })
}
