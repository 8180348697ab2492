/**
 * The outcome of a run. SECURITY: the agent's own word is never enough: exit code, last event, refusals and
 * changes decide together.
 */
import type { TurnEnd } from '../agents/drivers/driver.ts'
import type { Outcome } from '../core/run.ts'
import type { StopRequest } from './progress.ts'

export interface RunEnding {
  readonly wish?: StopRequest | undefined
  /** Undefined if the agent ended without saying how. */
  readonly end?: TurnEnd | undefined
  readonly exitCode?: number | undefined
  /** The end of its standard error. */
  readonly complaint: string
  readonly denials: number
  /** The HTTP status of the last answer of the model, if that was a refusal. */
  readonly refusal?: number | undefined
  /** Undefined if unknown. */
  readonly isChanged: boolean | undefined
}

export function runOutcome(ending: RunEnding): {
  readonly outcome: Outcome
  readonly reason: string | undefined
} {
  const { wish, end, exitCode, denials, isChanged } = ending
  if (wish) return wish
  if (!end) {
    const how =
      exitCode === undefined ? 'it ended without giving a reason' : `it ended with exit code ${exitCode}`
    return { outcome: 'failed', reason: withWords(how, ending.complaint) }
  }
  if (end.how === 'failed') return { outcome: 'failed', reason: failure(end, ending) }
  if (isChanged) return { outcome: 'changed', reason: undefined }
  // Some agents end as if they had succeeded.
  if (ending.refusal !== undefined) return { outcome: 'failed', reason: refusalReason(ending.refusal) }
  if (end.how === 'refused' || denials > 0)
    return {
      outcome: 'denied',
      reason:
        end.how === 'refused'
          ? (end.message ?? 'the model refused')
          : 'its requests were refused, and it changed nothing',
    }
  if (end.how === 'limit')
    return { outcome: 'failed', reason: end.message ?? 'the limit of the model was reached' }
  if (end.how === 'canceled') return { outcome: 'canceled', reason: end.message }
  return { outcome: 'unchanged', reason: undefined }
}

/**
 * If the process ended, the reason is the end of its standard error; if the agent gave a reason, that one.
 * The status on the wire says more than what the agent made of it.
 */
function failure({ message }: TurnEnd, { refusal, exitCode, complaint }: RunEnding): string {
  const isTold = message !== undefined && exitCode === undefined
  const how = message ?? 'the agent failed'
  const words = isTold ? how : withWords(how, complaint)
  return refusal === undefined ? words : `${words} (${refusalReason(refusal)})`
}

function refusalReason(status: number): string {
  if (status === 401 || status === 403) return `the model refused the key (status ${status})`
  if (status === 429) return 'the model refused: too many requests, or no credit left on the key (status 429)'
  return `the model did not answer (status ${status})`
}

function withWords(how: string, complaint: string): string {
  const last = complaint.trim().split('\n').at(-1)?.trim()
  return last ? `${how}: ${last.slice(0, 300)}` : how
}
