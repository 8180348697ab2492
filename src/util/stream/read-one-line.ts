import type { Readable } from 'node:stream'

const NEWLINE = 0x0a

/**
 * One line, and nothing of what follows it, which stays in the stream. Undefined if the stream or the signal
 * ends first, or if the line is longer than `limit` bytes.
 */
export function readOneLine(
  stream: Readable,
  { limit, signal }: { readonly limit: number; readonly signal: AbortSignal },
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const bytes: number[] = []
    const end = (line: string | undefined): void => {
      stream.off('readable', onReadable).off('close', onOver).off('end', onOver)
      signal.removeEventListener('abort', onOver)
      resolve(line)
    }
    const onOver = (): void => end(undefined)
    const onReadable = (): void => {
      while (bytes.length <= limit) {
        // One byte at a time: a longer read would take what follows.
        const byte = (stream.read(1) as Buffer | null)?.[0]
        if (byte === undefined) return
        if (byte === NEWLINE) {
          end(Buffer.from(bytes).toString('utf8'))
          return
        }
        bytes.push(byte)
      }
      onOver()
    }
    signal.addEventListener('abort', onOver, { once: true })
    stream.once('close', onOver).once('end', onOver).on('readable', onReadable)
    if (signal.aborted) onOver()
  })
}
