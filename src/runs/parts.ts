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
  /** Where results are kept, a directory a run. */
  readonly directory: string
  /** How many may be at work at one time; the others wait. */
  readonly atOnce: number
  /** Sandboxes of ended runs that one owner keeps for follow-ups; beyond it the oldest go before their time. */
  readonly mostKept: number
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

export type Say = (events: readonly RunEventBody[]) => void
