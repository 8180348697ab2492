/** Streams a guest's answer to a client and frees each buffer as soon as it is written. */
import { IncomingMessage, ServerResponse } from 'node:http'
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
  const cork = corkUntilNextTurn(to instanceof ServerResponse ? to.socket : null)
  from.on('data', (chunk: Buffer) => {
    if (chunk.length < SMALL_BYTES) cork()
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

const SMALL_BYTES = 4096

/**
 * Small parts that arrive together are sent together: the head of an answer with its first message, and the
 * last message with the end. It corks the connection: an answer that is corked itself sends its end first.
 */
function corkUntilNextTurn(connection: Writable | null): () => void {
  let isCorked = false
  return () => {
    if (isCorked || !connection) return
    isCorked = true
    connection.cork()
    setImmediate(() => {
      isCorked = false
      connection.uncork()
    })
  }
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
