/** Streams a guest's answer to a client and frees each buffer as soon as it is written. */
import { IncomingMessage } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'

/**
 * Like `pipeline`, for a body with no other reader. A gigabyte arrives in some twenty thousand buffers, which
 * the garbage collector frees only after tens of megabytes have piled up. Here each is freed once the client
 * has its bytes.
 */
export async function streamBody(from: Readable, to: Writable): Promise<void> {
  // Only chunks of an HTTP message own the buffer a socket read into; other buffers may be part of Node's
  // shared pool.
  const release = from instanceof IncomingMessage ? releaseInOrder() : undefined
  from.on('data', (chunk: Buffer) => {
    if (!to.write(chunk, release && (() => release(chunk)))) from.pause()
  })
  to.on('drain', () => from.resume())
  // If either side ends early, the other is destroyed too.
  to.once('close', () => from.destroy())
  try {
    await finished(from, { writable: false })
  } catch (error) {
    to.destroy()
    throw error
  }
  to.end()
  await finished(to, { readable: false })
}

/**
 * Several chunks may share one buffer, so a buffer is freed when the first chunk of the next buffer is
 * written; writes finish in order. `transfer` detaches all views of the buffer and frees its memory
 * immediately.
 */
function releaseInOrder(): (chunk: Buffer) => void {
  let current: ArrayBufferLike | undefined
  return (chunk) => {
    if (chunk.buffer === current) return
    if (current instanceof ArrayBuffer) current.transfer(0)
    current = chunk.buffer
  }
}
