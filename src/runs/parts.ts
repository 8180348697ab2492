import type { RunEventBody } from '../core/run.ts'
import type { Engine } from '../engine/engine.ts'
import type { RunJournal } from '../store/run-journal.ts'
import type { RunStore } from '../store/runs.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import type { Random } from '../util/random.ts'

export interface RunsParts {
  readonly engine: Engine
  readonly store: RunStore
  readonly journal: RunJournal
  /** The directory of results, with one directory per run. */
  readonly directory: string
  /** How many runs may work at the same time; the others wait. */
  readonly atOnce: number
  /**
   * How many sandboxes of ended runs one owner keeps for follow-ups. Beyond that the oldest are destroyed
   * early.
   */
  readonly mostKept: number
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

export type Say = (events: readonly RunEventBody[]) => void
