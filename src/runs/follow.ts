/** The events of a run as they happen: first what is stored, then what comes, until it has ended. */
import type { RunEvent } from '../core/run.ts'
import type { RunJournal } from '../store/run-journal.ts'
import type { Clock } from '../util/clock.ts'
import { followNews } from '../util/follow-news.ts'
import type { News } from '../util/news.ts'

export interface FollowRun {
  /** The last event that the follower has. */
  readonly after: number
  /** After so long without an event, an empty batch says that the stream lives. */
  readonly keepaliveMs: number
  readonly signal: AbortSignal
}

const BATCH = 200

/** A slow follower reads later, from the journal. */
export function followRun(
  parts: { readonly journal: RunJournal; readonly news: News; readonly clock: Clock; isEnded(): boolean },
  runId: string,
  o: FollowRun,
): AsyncGenerator<readonly RunEvent[]> {
  return followNews({
    ...parts,
    ...o,
    subject: runId,
    read: (after) => parts.journal.events(runId, { after, limit: BATCH }),
    isEnded: () => parts.isEnded(),
  })
}
