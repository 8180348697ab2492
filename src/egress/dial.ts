/** A connection to an address that was checked. */
import { connect, type Socket } from 'node:net'
import { type Address, formatAddress } from '../policy/address.ts'

/** Resolves once connected; rejects, with nothing left open, where that fails or the signal aborts. */
export type Dial = (
  place: { readonly address: Address; readonly port: number },
  signal: AbortSignal,
) => Promise<Socket>

/** Enough that one stream is not held up by turns of the event loop. */
export const BUFFER_BYTES = 256 * 1024

/** SECURITY: NW-09. The host is the number that was checked, so nothing is looked up a second time. */
export const dialAddress: Dial = ({ address, port }, signal) =>
  dialSocket({ host: formatAddress(address), port }, signal)

export function dialSocket(
  place: { readonly host: string; readonly port: number } | { readonly path: string },
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const options = { ...place, allowHalfOpen: true, noDelay: true, highWaterMark: BUFFER_BYTES }
    const socket = connect(options)
    const onAbort = (): void => onError(signal.reason as Error)
    const onError = (error: Error): void => {
      signal.removeEventListener('abort', onAbort)
      socket.off('error', onError)
      // A failure that comes after this one has nobody to tell.
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
