import type { Evidence, Rank, Rejected } from '../evidence.ts'

/** A choice of a plan, as `agentpod config explain` shows it. */
export interface ExplainedChoice {
  /** `languages.node`, `services.postgres`, `commands.test`. */
  readonly key: string
  readonly value: string
  readonly rank: Rank
  readonly from: Evidence
  readonly beat: readonly Rejected[]
  readonly note?: string | undefined
  /** The command, if the value is not a command. */
  readonly run?: string | undefined
}
