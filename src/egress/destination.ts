/** The destination of a connection, parsed once. */
import type { NetRecord } from '../core/network.ts'
import { type Address, formatAddress, readAddress } from '../policy/address.ts'
import { type HostName, readHostName } from '../policy/host-name.ts'
import { readPort } from '../policy/port.ts'

export type Destination =
  | { readonly kind: 'name'; readonly host: HostName; readonly port: number }
  | { readonly kind: 'address'; readonly address: Address; readonly port: number }

/** How the connection named its destination. */
export type Via = NetRecord['via']

export const MALFORMED = '(malformed)'

/**
 * SECURITY: NW-11, NW-13. Undefined unless the text is a host name or an address in its standard notation.
 * Text from Node's HTTP parser is latin1 and must be passed as the original bytes.
 */
export function readDestination(raw: Uint8Array, port: number): Destination | undefined {
  const reading = readHostName(raw)
  if (reading.ok) return { kind: 'name', host: reading.host, port }
  if (reading.refusal !== 'address') return undefined
  const text = Buffer.from(raw).toString('latin1')
  const isBracketed = text.startsWith('[') && text.endsWith(']')
  const address = readAddress(isBracketed ? text.slice(1, -1) : text)
  // Brackets are only valid around IPv6.
  if (!address || (isBracketed && address.family !== 6)) return undefined
  return { kind: 'address', address, port }
}

/** `host:port` of a CONNECT, a URL or a Host header. The port is optional if `defaultPort` is given. */
export function readAuthority(text: string, defaultPort?: number): Destination | undefined {
  const match = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text)
  if (!match) return undefined
  const [, host = '', written] = match
  const port = written === undefined ? defaultPort : readPort(written)
  return port === undefined ? undefined : readDestination(Buffer.from(host, 'latin1'), port)
}

/** Always printable: a valid host name or a formatted address. */
export function hostText(destination: Destination): string {
  return destination.kind === 'name' ? destination.host : formatAddress(destination.address)
}

export function isSameDestination(a: Destination, b: Destination): boolean {
  return a.kind === b.kind && a.port === b.port && hostText(a) === hostText(b)
}
