/** A server that the user gave by its IP address. */
import { formatAddress, readAddress } from '../../policy/address.ts'
import { parseNamedAddress } from '../../policy/named-address.ts'

/**
 * In the form of a sandbox's network settings, such as `10.0.0.5:8443`; undefined if the host is a name.
 * Throws for addresses that no sandbox may reach.
 */
export function namedServer(host: string, port: number): string | undefined {
  const address = readAddress(host)
  if (!address) return undefined
  const text = formatAddress(address)
  const named = `${address.family === 6 ? `[${text}]` : text}:${port}`
  parseNamedAddress(named)
  return named
}
