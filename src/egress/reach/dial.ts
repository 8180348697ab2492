/** Connects to a checked address. */
import type { Socket } from 'node:net'
import { type Address, formatAddress } from '../../policy/address.ts'
import { ReadingSocket } from './reading-socket.ts'

/** Resolves when connected. On failure or abort it rejects and leaves nothing open. */
export type Dial = (
  place: { readonly address: Address; readonly port: number },
  signal: AbortSignal,
) => Promise<Socket>

/** Large enough that a single stream is not limited by event loop latency. */
export const BUFFER_BYTES = 256 * 1024

/** SECURITY: NW-09. Dials the checked address itself, so the name is not resolved a second time. */
export const dialAddress: Dial = ({ address, port }, signal) =>
  dialSocket({ host: formatAddress(address), port }, signal)

export function dialSocket(
  place: { readonly host: string; readonly port: number } | { readonly path: string },
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const options = { ...place, allowHalfOpen: true, noDelay: true, highWaterMark: BUFFER_BYTES }
    const socket = new ReadingSocket(options)
    socket.connect(options)
    const onAbort = (): void => onError(signal.reason as Error)
    const onError = (error: Error): void => {
      signal.removeEventListener('abort', onAbort)
      socket.off('error', onError)
      // Ignores later errors of the socket.
      socket.on('error', () => undefined)
      socket.destroy()
      reject(error)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    socket.once('error', onError)
    socket.once('connect', () => {
      signal.removeEventListener('abort', onAbort)
      socket.off('error', onError)
      resolve(socket)
    })
  })
}
