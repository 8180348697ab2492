/** How far a run has come; stored with every step, so that it is all another server needs. */
import type { Question, TurnEnd } from '../agents/driver.ts'
import type { Outcome } from '../core/run.ts'

export interface OpenQuestion extends Question {
  readonly askedAt: number
}

/** Questions that come from the way out, and not from the agent; nobody waits for those. */
export const WAY_OUT = 'net-'

export function isOfWayOut({ permission }: Pick<Question, 'permission'>): boolean {
  return permission.startsWith(WAY_OUT)
}

/** Why it is to stop, from outside of it. */
export interface Wish {
  readonly outcome: Extract<Outcome, 'timed_out' | 'over_budget' | 'canceled'>
  readonly reason: string
}

export interface Progress {
  readonly turn: number
  /** What it was given to do in this turn. */
  readonly prompt: string
  /** The driver's own; there once the turn has begun. */
  readonly driver?: unknown
  /** Bytes of its output that have become events. */
  readonly offset: number
  readonly deadlineAt?: number | undefined
  readonly wish?: Wish | undefined
  readonly end?: TurnEnd | undefined
  readonly exitCode?: number | undefined
  readonly questions: readonly OpenQuestion[]
  /** Said while it was at work, for the next turn. */
  readonly queue: readonly string[]
  /** The last decision of the way out that was looked at. */
  readonly netSeq: number
  readonly transcriptBytes: number
  /** What was to be sent in this turn in answer to what the agent wrote. */
  readonly answeredBytes?: number | undefined
  /** The status that the model last refused an answer with, where it has answered nothing since. */
  readonly refusal?: number | undefined
  /** Whether the model has answered in this turn. */
  readonly hasAnswer?: boolean | undefined
  /** The last it said on standard error. */
  readonly complaint: string
}

export function firstProgress(prompt: string): Progress {
  return {
    turn: 1,
    prompt,
    offset: 0,
    questions: [],
    queue: [],
    netSeq: 0,
    transcriptBytes: 0,
    complaint: '',
  }
}

/** The next turn knows what was decided and what it may still do, and nothing of how the last one went. */
export function nextTurn(progress: Progress, prompt: string, queue: readonly string[]): Progress {
  const { turn, netSeq, transcriptBytes } = progress
  return { ...firstProgress(prompt), turn: turn + 1, queue, netSeq, transcriptBytes }
}
