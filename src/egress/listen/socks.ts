/**
 * SOCKS5 (RFC 1928) without authentication, CONNECT only. SECURITY: NW-11. This is the only parser: the
 * destination is read once and every later step uses the result.
 */
import type { Duplex } from 'node:stream'
import type { Clock } from '../../util/clock.ts'
import { type Destination, readDestination } from '../destination.ts'
import type { Refusal } from '../refusal.ts'
import { readExactly } from './peek-stream.ts'

export const SOCKS_VERSION = 5
const WITHIN_MS = 15_000
const NO_AUTHENTICATION = 0
const NONE_ACCEPTABLE = 0xff
const CONNECT = 1
const [IPV4, NAME, IPV6] = [1, 3, 4]

export const REPLIES = {
  succeeded: 0,
  failed: 1,
  notAllowed: 2,
  hostUnreachable: 4,
  refused: 5,
  commandUnsupported: 7,
  addressUnsupported: 8,
} as const
export type Reply = keyof typeof REPLIES

export type SocksRequest =
  | { readonly kind: 'destination'; readonly destination: Destination }
  /** The requested host is not valid; no reply was sent yet. */
  | { readonly kind: 'malformed' }
  /** A reply was sent, or the stream is closed. */
  | { readonly kind: 'over' }

export async function readSocks(stream: Duplex, clock: Clock): Promise<SocksRequest> {
  const next = (length: number): Promise<Buffer | undefined> =>
    readExactly(stream, length, { clock, withinMs: WITHIN_MS })
  const over = (answer?: Buffer): SocksRequest => {
    if (answer) stream.end(answer)
    else stream.destroy()
    return { kind: 'over' }
  }
  const greeting = await next(2)
  if (greeting?.[0] !== SOCKS_VERSION) return over()
  const methods = greeting[1] ? await next(greeting[1]) : Buffer.alloc(0)
  if (!methods) return over()
  if (!methods.includes(NO_AUTHENTICATION)) return over(Buffer.from([SOCKS_VERSION, NONE_ACCEPTABLE]))
  stream.write(Buffer.from([SOCKS_VERSION, NO_AUTHENTICATION]))
  const head = await next(4)
  if (head?.[0] !== SOCKS_VERSION || head[2] !== 0) return over()
  if (head[1] !== CONNECT) return over(socksReply('commandUnsupported'))
  const host = await readHost(head[3], next)
  if (host === 'unsupported') return over(socksReply('addressUnsupported'))
  const port = host && (await next(2))
  if (!host || !port) return over()
  const number = port.readUInt16BE(0)
  const destination = number === 0 ? undefined : readDestination(host, number)
  return destination ? { kind: 'destination', destination } : { kind: 'malformed' }
}

/** The bytes of the host in text form. */
async function readHost(
  type: number | undefined,
  next: (length: number) => Promise<Buffer | undefined>,
): Promise<Buffer | undefined | 'unsupported'> {
  if (type === NAME) {
    const length = (await next(1))?.[0]
    if (length === undefined) return undefined
    return length === 0 ? Buffer.alloc(0) : next(length)
  }
  if (type === IPV4) {
    const bytes = await next(4)
    return bytes && Buffer.from(bytes.join('.'))
  }
  if (type !== IPV6) return 'unsupported'
  const bytes = await next(16)
  const groups = bytes && Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(2 * at).toString(16))
  return groups && Buffer.from(groups.join(':'))
}

/** The bound address is always reported as 0.0.0.0, to reveal nothing about the host. */
export function socksReply(reply: Reply): Buffer {
  return Buffer.from([SOCKS_VERSION, REPLIES[reply], 0, IPV4 ?? 1, 0, 0, 0, 0, 0, 0])
}

export function replyOf({ status, reason }: Refusal): Reply {
  if (status !== 502) return status === 400 ? 'failed' : 'notAllowed'
  return reason === 'upstream.refused' ? 'refused' : 'hostUnreachable'
}
