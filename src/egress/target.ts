/** Where a connection wants to go, read once. */
import type { NetRecord } from '../core/network.ts'
import { type Address, formatAddress, readAddress } from '../policy/address.ts'
import { type HostName, readHostName } from '../policy/host-name.ts'
import { readPort } from '../policy/port.ts'

export type Target =
  | { readonly kind: 'name'; readonly host: HostName; readonly port: number }
  | { readonly kind: 'address'; readonly address: Address; readonly port: number }

/** How a connection came to say it. */
export type Via = NetRecord['via']

export const MALFORMED = '(malformed)'

/**
 * SECURITY: NW-11, NW-13. What is no name and no address in its plain notation is undefined, and nothing more happens with it. Text that came
 * through Node's parser is latin1 and is given as the bytes it was.
 */
export function readTarget(raw: Uint8Array, port: number): Target | undefined {
  const reading = readHostName(raw)
  if (reading.ok) return { kind: 'name', host: reading.host, port }
  if (reading.refusal !== 'address') return undefined
  const text = Buffer.from(raw).toString('latin1')
  const isBracketed = text.startsWith('[') && text.endsWith(']')
  const address = readAddress(isBracketed ? text.slice(1, -1) : text)
  // Brackets belong around IPv6 and nothing else.
  if (!address || (isBracketed && address.family !== 6)) return undefined
  return { kind: 'address', address, port }
}

/** `host:port` of a CONNECT, a URL or a Host header; the port may be left out where there is one to assume. */
export function readAuthority(text: string, defaultPort?: number): Target | undefined {
  const match = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text)
  if (!match) return undefined
  const [, host = '', written] = match
  const port = written === undefined ? defaultPort : readPort(written)
  return port === undefined ? undefined : readTarget(Buffer.from(host, 'latin1'), port)
}

/** Always printable: a name of plain grammar or a formatted address. */
export function hostText(target: Target): string {
  return target.kind === 'name' ? target.host : formatAddress(target.address)
}

export function isSameTarget(a: Target, b: Target): boolean {
  return a.kind === b.kind && a.port === b.port && hostText(a) === hostText(b)
}
