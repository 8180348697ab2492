/** Streams a guest's answer to a client and lets go of each buffer once it is written. */
import { IncomingMessage } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'

/**
 * Like `pipeline`, for a body nobody else looks at. A gigabyte passes as some twenty thousand buffers, which the collector finds
 * only when tens of megabytes of them lie about; here their memory goes back as soon as the client has the bytes.
 */
export async function pour(from: Readable, to: Writable): Promise<void> {
  // Only a message's chunks are parts of what a socket read; buffers of other makers may come from Node's shared pool.
  const release = from instanceof IncomingMessage ? releaseInOrder() : undefined
  from.on('data', (chunk: Buffer) => {
    if (!to.write(chunk, release && (() => release(chunk)))) from.pause()
  })
  to.on('drain', () => from.resume())
  // Whichever side ends early takes the other with it.
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
 * Several chunks may be parts of one buffer, so a buffer is let go when the first chunk of the next one is written: writes end in
 * order. `transfer` leaves the views of it empty and frees its memory at once.
 */
function releaseInOrder(): (chunk: Buffer) => void {
  let current: ArrayBufferLike | undefined
  return (chunk) => {
    if (chunk.buffer === current) return
    if (current instanceof ArrayBuffer) current.transfer(0)
    current = chunk.buffer
  }
}
