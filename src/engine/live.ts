import type { Guest } from '../core/guest.ts'
import { EnvdServer } from '../guest/envd-server.ts'
import type { Live } from './context.ts'

/** The way into a sandbox that runs. */
export function liveOf(guest: Guest): Live {
  const ended = new AbortController()
  return { guest, ended, envd: new EnvdServer(guest, ended.signal) }
}
