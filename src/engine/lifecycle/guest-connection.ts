import type { Guest } from '../../core/guest.ts'
import { EnvdServer } from '../../guest/envd/server.ts'
import type { GuestConnection } from '../context.ts'

/** The connection to a running sandbox. */
export function connectionTo(guest: Guest): GuestConnection {
  const ended = new AbortController()
  return { guest, ended, envd: new EnvdServer(guest, ended.signal) }
}
