/** A server that a person named by its address. */
import { formatAddress, readAddress } from '../policy/address.ts'
import { parseNamedAddress } from '../policy/named-address.ts'

/** As the network of a sandbox lists it, such as `10.0.0.5:8443`; undefined where the host has a name. Throws on what no sandbox reaches. */
export function namedServer(host: string, port: number): string | undefined {
  const address = readAddress(host)
  if (!address) return undefined
  const text = formatAddress(address)
  const named = `${address.family === 6 ? `[${text}]` : text}:${port}`
  parseNamedAddress(named)
  return named
}
