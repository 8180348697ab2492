import type { Guest } from '../../core/guest.ts'
import type { Resources } from '../../core/resources.ts'
import { EnvdServer } from '../../guest/envd/server.ts'
import { BandwidthLimit } from '../../util/stream/bandwidth-limit.ts'
import type { GuestConnection } from '../context.ts'

/** The connection to a running sandbox. */
export function connectionTo(guest: Guest, { bandwidthBytes }: Resources): GuestConnection {
  const ended = new AbortController()
  return {
    guest,
    ended,
    envd: new EnvdServer(guest, ended.signal),
    ...(bandwidthBytes !== undefined && { bandwidthLimit: new BandwidthLimit(bandwidthBytes) }),
  }
}
