/**
 * A byte stream to podd: the daemon runs `podd connect` in the container, which copies between our stream and
 * podd's socket.
 */
import { Duplex } from 'node:stream'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import { type Daemon, parseAnswer } from '../daemon/daemon.ts'
import { MADE } from '../daemon/responses.ts'
import { PODD_SOCKET } from './container-body.ts'
import { PODD_PATH } from './initial-files.ts'

const HEADER_BYTES = 8
const STDOUT = 1
const LONGEST_FRAME = 64 * 1024 * 1024

export async function dialPodd(
  daemon: Daemon,
  target: { readonly container: string; readonly token: string },
  o: CallOptions,
  signal: AbortSignal,
): Promise<Duplex> {
  const made = await daemon.json(
    {
      method: 'POST',
      path: `/containers/${target.container}/exec`,
      body: {
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: false,
        Tty: false,
        User: '0:0',
        WorkingDir: '/',
        Cmd: [PODD_PATH, 'connect', PODD_SOCKET],
      },
    },
    { ...o, signal },
  )
  const { Id } = parseAnswer(MADE, made)
  const raw = await daemon.hijack(
    { method: 'POST', path: `/exec/${Id}/start`, body: { Detach: false, Tty: false } },
    { ...o, signal },
    signal,
  )
  const stream = unframed(raw)
  stream.write(`agentpod ${target.token}\n`)
  return stream
}

/**
 * The daemon puts a header with the stream and the length before each piece of output; input has none. When
 * either side ends, both do.
 */
export function unframed(raw: Duplex): Duplex {
  const frames = new Frames()
  const stream: Duplex = new Duplex({
    read: () => void raw.resume(),
    write: (chunk: Buffer, _, done) => void raw.write(chunk, (error) => done(error)),
    final: (done) => void raw.end(() => done()),
    destroy: (error, done) => {
      raw.destroy()
      done(error)
    },
  })
  raw.on('data', (chunk: Buffer) => {
    try {
      for (const piece of frames.push(chunk)) if (!stream.push(piece)) raw.pause()
    } catch (error) {
      stream.destroy(error as Error)
    }
  })
  raw.once('end', () => stream.push(null))
  raw.once('error', (error) => stream.destroy(error))
  raw.once('close', () => stream.destroy())
  return stream
}

/** Removes the headers. Only an incomplete header is held back. */
class Frames {
  #header: Buffer = Buffer.alloc(0)
  #left = 0
  #isOutput: boolean

  constructor() {
    this.#isOutput = false
  }

  *push(chunk: Buffer): Generator<Buffer> {
    let rest = chunk
    while (rest.length > 0) {
      if (this.#left === 0) {
        const needed = HEADER_BYTES - this.#header.length
        this.#header = Buffer.concat([this.#header, rest.subarray(0, needed)])
        rest = rest.subarray(needed)
        if (this.#header.length < HEADER_BYTES) return
        this.#begin(this.#header)
        this.#header = Buffer.alloc(0)
        continue
      }
      const piece = rest.subarray(0, this.#left)
      this.#left -= piece.length
      rest = rest.subarray(piece.length)
      if (this.#isOutput) yield piece
    }
  }

  #begin(header: Buffer): void {
    this.#left = header.readUInt32BE(4)
    this.#isOutput = header[0] === STDOUT
    const isFrame = (header[0] ?? 9) <= 2 && header[1] === 0 && header[2] === 0 && header[3] === 0
    if (!isFrame || this.#left > LONGEST_FRAME)
      throw new AgentPodError({
        code: 'unavailable',
        reason: 'docker.protocol',
        message: 'the Docker daemon sent a malformed stream',
      })
  }
}
