/** SECURITY: CP-16. Long bodies may take as long as they need, but not stand still. */
import { Readable } from 'node:stream'
import { AgentPodError } from '../core/error.ts'
import type { Clock } from '../util/clock.ts'

const ARRIVING_IDLE_MS = 60_000
const LEAVING_IDLE_MS = 10 * 60_000

/** A body from a client: cut when nothing of it comes for a while. How long its reader takes over a piece does not count. */
export function arriving(source: Readable, clock: Clock, idleMs = ARRIVING_IDLE_MS): Readable {
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

/** A body for a client: cut when the client takes nothing of it for a while. */
export function leaving(source: Readable, clock: Clock, idleMs = LEAVING_IDLE_MS): Readable {
  const watch = (): (() => void) => clock.after(idleMs, () => source.destroy(slow('leave')))
  let cancel = watch()
  source.on('data', () => {
    cancel()
    cancel = watch()
  })
  source.once('close', () => cancel())
  // Listening for data made it flow; whoever reads decides when it does.
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
