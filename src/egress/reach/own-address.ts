/** The addresses of all interfaces of this machine. */
import { networkInterfaces } from 'node:os'
import { type Address, readAddress } from '../../policy/address.ts'
import type { Clock } from '../../util/clock.ts'

export type OwnAddresses = () => readonly Address[]

const KEPT_MS = 2000

/** Read again every two seconds, because interfaces change with networks and containers. */
export function systemAddresses(clock: Clock): OwnAddresses {
  let [until, addresses]: [number, readonly Address[]] = [0, []]
  return () => {
    if (clock.now() < until) return addresses
    until = clock.now() + KEPT_MS
    addresses = Object.values(networkInterfaces())
      .flatMap((one) => one ?? [])
      .map(({ address }) => readAddress(address.split('%', 1)[0] ?? ''))
      .filter((address) => address !== undefined)
    return addresses
  }
}
