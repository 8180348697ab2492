/** The events of a run as they happen: first the stored ones, then new ones, until the run has ended. */
import type { RunEvent } from '../core/run.ts'
import type { RunJournal } from '../store/run-journal.ts'
import type { Clock } from '../util/clock.ts'
import { followRecords } from '../util/follow-records.ts'
import type { Notifier } from '../util/notifier.ts'

export interface FollowRun {
  /** The sequence number of the last event that the follower has. */
  readonly after: number
  /** After this long without an event, an empty batch shows that the stream is alive. */
  readonly keepaliveMs: number
  readonly signal: AbortSignal
}

const BATCH = 200

/** A slow follower catches up from the journal. */
export function followRun(
  parts: {
    readonly journal: RunJournal
    readonly notifier: Notifier
    readonly clock: Clock
    isEnded(): boolean
  },
  runId: string,
  o: FollowRun,
): AsyncGenerator<readonly RunEvent[]> {
  return followRecords({
    ...parts,
    ...o,
    subject: runId,
    read: (after) => parts.journal.events(runId, { after, limit: BATCH }),
    isEnded: () => parts.isEnded(),
  })
}
