/** What a run came to. SECURITY: no word of the agent is enough by itself: exit, last event, refusals and what changed decide together. */
import type { TurnEnd } from '../agents/driver.ts'
import type { Outcome } from '../core/run.ts'
import type { Wish } from './progress.ts'

export interface Ending {
  readonly wish?: Wish | undefined
  /** Undefined where it ended without a word. */
  readonly end?: TurnEnd | undefined
  readonly exitCode?: number | undefined
  /** The last lines of its standard error. */
  readonly complaint: string
  readonly denials: number
  /** The status of the model's last answer, where that was a refusal. */
  readonly refusal?: number | undefined
  /** Undefined where it is not known. */
  readonly isChanged: boolean | undefined
}

export function outcomeOf(ending: Ending): {
  readonly outcome: Outcome
  readonly reason: string | undefined
} {
  const { wish, end, exitCode, denials, isChanged } = ending
  if (wish) return wish
  if (!end) {
    const how = exitCode === undefined ? 'it ended without a word' : `it ended with exit code ${exitCode}`
    return { outcome: 'failed', reason: withWords(how, ending.complaint) }
  }
  if (end.how === 'failed') return { outcome: 'failed', reason: failure(end, ending) }
  if (isChanged) return { outcome: 'changed', reason: undefined }
  // Some agents end as if all were well.
  if (ending.refusal !== undefined) return { outcome: 'failed', reason: refusalReason(ending.refusal) }
  if (end.how === 'refused' || denials > 0)
    return {
      outcome: 'denied',
      reason:
        end.how === 'refused'
          ? (end.message ?? 'the model refused')
          : 'it was refused what it asked for, and changed nothing',
    }
  if (end.how === 'limit')
    return { outcome: 'failed', reason: end.message ?? 'the model’s own limit was reached' }
  if (end.how === 'canceled') return { outcome: 'canceled', reason: end.message }
  return { outcome: 'unchanged', reason: undefined }
}

/**
 * One whose process ended has its last words on standard error; one that says why it failed has said it. What was seen on the wire says more
 * than what the agent made of it.
 */
function failure({ message }: TurnEnd, { refusal, exitCode, complaint }: Ending): string {
  const isTold = message !== undefined && exitCode === undefined
  const how = message ?? 'the agent failed'
  const words = isTold ? how : withWords(how, complaint)
  return refusal === undefined ? words : `${words} (${refusalReason(refusal)})`
}

function refusalReason(status: number): string {
  if (status === 401 || status === 403) return `the model refused the key (status ${status})`
  if (status === 429) return 'the model was asked too often, or the key has nothing left (status 429)'
  return `the model did not answer (status ${status})`
}

function withWords(how: string, complaint: string): string {
  const last = complaint.trim().split('\n').at(-1)?.trim()
  return last ? `${how}: ${last.slice(0, 300)}` : how
}
