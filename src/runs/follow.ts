/** The events of a run as they happen: first what is stored, then what comes, until it has ended. */
import type { RunEvent } from '../core/run.ts'
import type { RunJournal } from '../store/run-journal.ts'
import type { Clock } from '../util/clock.ts'
import type { News } from '../util/news.ts'

export interface FollowRun {
  /** The last event that the follower has. */
  readonly after: number
  /** After so long without an event, an empty batch says that the stream lives. */
  readonly keepaliveMs: number
  readonly signal: AbortSignal
}

const BATCH = 200

/**
 * INVARIANT: the journal is read after the subscription stands, and only ever from the last event given: so there is no gap and no event
 * twice. A slow follower reads later, from the journal.
 */
export async function* followRun(
  parts: { readonly journal: RunJournal; readonly news: News; readonly clock: Clock; isEnded(): boolean },
  runId: string,
  { after, keepaliveMs, signal }: FollowRun,
): AsyncGenerator<readonly RunEvent[]> {
  let last = after
  let isNew = true
  let wake = (): void => undefined
  const look = (): void => {
    isNew = true
    wake()
  }
  const unsubscribe = parts.news.subscribe(runId, look)
  signal.addEventListener('abort', look)
  try {
    while (!signal.aborted) {
      isNew = false
      const isEnded = parts.isEnded()
      const events = parts.journal.events(runId, { after: last, limit: BATCH })
      last = events.at(-1)?.seq ?? last
      if (events.length > 0) yield events
      else if (isEnded) return
      else if (!isNew) {
        const { promise, resolve } = Promise.withResolvers<void>()
        const cancel = parts.clock.after(keepaliveMs, resolve)
        wake = resolve
        await promise
        cancel()
        if (!isNew && !signal.aborted) yield []
      }
    }
  } finally {
    unsubscribe()
    signal.removeEventListener('abort', look)
  }
}
