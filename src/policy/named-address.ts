/** One server by address and port, as the user wrote it: `10.0.0.5:8443` or `[fd00::5]:443`. */
import { invalid } from '../core/error.ts'
import { type Address, formatAddress, isDialable, readAddress } from './address.ts'
import { effectiveAddress } from './cidr.ts'
import { readPort } from './port.ts'

export interface NamedAddress {
  readonly address: Address
  readonly port: number
}

/**
 * SECURITY: NW-03. Private addresses are accepted; this machine, link-local addresses and metadata services
 * are not.
 */
export function parseNamedAddress(text: string): NamedAddress {
  const [, v6, v4, digits = ''] = /^(?:\[([^\]]*)\]|([^:]*)):([^:]*)$/.exec(text) ?? []
  const address = readAddress(v6 ?? v4 ?? '')
  const port = readPort(digits)
  if (!address || port === undefined || (v6 !== undefined) !== (address.family === 6))
    throw invalid(
      'address.malformed',
      'a named server is an address with a port',
      'for example 10.0.0.5:8443 or [fd00::5]:443',
    )
  if (!isDialable(address, { allowPrivate: true }))
    throw invalid(
      'address.never',
      `no sandbox can reach ${formatAddress(address)}`,
      'name a server on a public or private address',
    )
  return { address, port }
}

/** SECURITY: NW-13. The v4-mapped form of an address counts as that address. */
export function isNamed(named: readonly NamedAddress[], address: Address, port: number): boolean {
  const { bits } = effectiveAddress(address)
  return named.some((one) => one.port === port && effectiveAddress(one.address).bits === bits)
}
