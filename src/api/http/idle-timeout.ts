/** SECURITY: CP-16. Idle time limits for long bodies: they may take any time as long as bytes keep moving. */
import { Readable } from 'node:stream'
import { AgentPodError } from '../../core/error.ts'
import type { Clock } from '../../util/clock.ts'

const ARRIVING_IDLE_MS = 60_000
const LEAVING_IDLE_MS = 10 * 60_000

/** Cuts an upload when no bytes arrive for a while. The time that its reader takes does not count. */
export function limitUploadIdle(source: Readable, clock: Clock, idleMs = ARRIVING_IDLE_MS): Readable {
  const pieces = async function* (): AsyncGenerator<Buffer> {
    const chunks = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    for (;;) {
      const cancel = clock.after(idleMs, () => source.destroy(slow('arrive')))
      const next = await chunks.next().finally(cancel)
      if (next.done) return
      yield Buffer.from(next.value)
    }
  }
  return Readable.from(pieces(), { objectMode: false })
}

/** Cuts a download when the client reads nothing for a while. */
export function limitDownloadIdle(source: Readable, clock: Clock, idleMs = LEAVING_IDLE_MS): Readable {
  const watch = (): (() => void) => clock.after(idleMs, () => source.destroy(slow('leave')))
  let cancel = watch()
  source.on('data', () => {
    cancel()
    cancel = watch()
  })
  source.once('close', () => cancel())
  // The listener for data started the flow; the reader decides when it starts.
  source.pause()
  return source
}

function slow(way: 'arrive' | 'leave'): AgentPodError {
  return new AgentPodError({
    code: 'deadline_exceeded',
    reason: 'body.slow',
    message: `the archive took too long to ${way}`,
  })
}
