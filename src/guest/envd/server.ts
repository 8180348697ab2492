/**
 * Serves envd's protocol (spec/guest-protocol.md) for a guest that does not speak it: translates each call
 * into calls of the typed guest. A call that the guest does not support is answered with `unimplemented`.
 * SECURITY: calls for the engine only (`/agentpod/init`, `/agentpod/lease`) are not served.
 */

import { Readable } from 'node:stream'
import type { GuestCall } from '../../core/call.ts'
import type { Guest, GuestRequest, GuestResponse } from '../../core/guest.ts'
import type { EnvdHandler } from './call.ts'
import { FILE_CALLS, watcherCalls } from './files.ts'
import { asEnvdRefusal, EnvdRefusal, json, refusedWith, timeoutOf } from './message.ts'
import { PROCESS_CALLS } from './processes.ts'
import { TRANSFER_CALLS } from './transfer.ts'
import { EnvdWatchers } from './watchers.ts'

const ASK_MS = 20_000
const STREAMS: ReadonlySet<string> = new Set([
  '/process.Process/Start',
  '/process.Process/Connect',
  '/process.Process/StreamInput',
  '/filesystem.Filesystem/WatchDir',
  '/agentpod/attach',
])

const PLAIN_CALLS: Readonly<Record<string, EnvdHandler>> = {
  'GET /health': async ({ guest, signal }) => {
    await guest.health({ signal, timeoutMs: ASK_MS })
    return { status: 204, headers: {}, body: Readable.from([]) }
  },
  'GET /agentpod/usage': async ({ guest, signal }) =>
    json(200, await guest.stats({ signal, timeoutMs: ASK_MS })),
}

export class EnvdServer {
  readonly #guest: Guest
  readonly #calls: Readonly<Record<string, EnvdHandler>>

  /** Watches that a client polls live until `ended` aborts. */
  constructor(guest: Guest, ended: AbortSignal) {
    this.#guest = guest
    const watchers = watcherCalls(new EnvdWatchers(ended))
    this.#calls = { ...PLAIN_CALLS, ...PROCESS_CALLS, ...FILE_CALLS, ...TRANSFER_CALLS, ...watchers }
  }

  /** Rejects if the guest cannot be reached, like `passThrough`. */
  async handle(request: GuestRequest, { signal }: GuestCall): Promise<GuestResponse> {
    const [pathname, search] = splitOnce(request.path)
    const path = decoded(pathname)
    try {
      // A malformed timeout is refused for every call, including those that ignore it.
      timeoutOf(request)
      const handle = this.#find(request.method, path)
      return await handle({ guest: this.#guest, request, query: new URLSearchParams(search), signal })
    } catch (error) {
      const refusal = asEnvdRefusal(error)
      if (!refusal) throw error
      return refusedWith(refusal, STREAMS.has(path))
    }
  }

  #find(method: string, path: string): EnvdHandler {
    const call = `${method} ${path}`
    const found = Object.hasOwn(this.#calls, call) ? this.#calls[call] : undefined
    if (found) return found
    throw this.#unknown(method, path)
  }

  #unknown(method: string, path: string): EnvdRefusal {
    const said = JSON.stringify(path.slice(0, 200))
    const other = ['GET', 'POST'].find((one) => Object.hasOwn(this.#calls, `${one} ${path}`))
    if (other) return new EnvdRefusal('unimplemented', `${said} takes ${other}`, 405)
    return new EnvdRefusal('unimplemented', `no call ${method} ${said}`, 404)
  }
}

function splitOnce(path: string): [string, string] {
  const at = path.indexOf('?')
  return at < 0 ? [path, ''] : [path.slice(0, at), path.slice(at + 1)]
}

/** The front door refuses invalid percent-encoding; here it would be an unknown call. */
function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname)
  } catch {
    return pathname
  }
}
