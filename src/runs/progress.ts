/** The progress of a run. It is stored with every step and is all that another server needs to continue. */
import type { Question, TurnEnd } from '../agents/drivers/driver.ts'
import type { Outcome } from '../core/run.ts'

export interface OpenQuestion extends Question {
  readonly askedAt: number
}

/** The prefix of questions about the network. The agent does not wait for their answers. */
export const NETWORK_QUESTION = 'net-'

export function isNetworkQuestion({ permission }: Pick<Question, 'permission'>): boolean {
  return permission.startsWith(NETWORK_QUESTION)
}

/** A request from outside to stop the run, with the reason. */
export interface StopRequest {
  readonly outcome: Extract<Outcome, 'timed_out' | 'over_budget' | 'canceled'>
  readonly reason: string
}

export interface Progress {
  readonly turn: number
  /** The prompt of this turn. */
  readonly prompt: string
  /** The state of the driver; undefined until the turn has started. */
  readonly driver?: unknown
  /** How many bytes of output have become events. */
  readonly offset: number
  readonly deadlineAt?: number | undefined
  readonly wish?: StopRequest | undefined
  readonly end?: TurnEnd | undefined
  readonly exitCode?: number | undefined
  readonly questions: readonly OpenQuestion[]
  /** Messages for the next turns, sent while this one was running. */
  readonly queue: readonly string[]
  /** The last network decision that was processed. */
  readonly netSeq: number
  readonly transcriptBytes: number
  /** Bytes sent to the agent in this turn as answers. */
  readonly answeredBytes?: number | undefined
  /** The HTTP status of the last refusal of the model, if no answer came since. */
  readonly refusal?: number | undefined
  /** Whether the model has answered in this turn. */
  readonly hasAnswer?: boolean | undefined
  /** The end of standard error. */
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

/** The next turn keeps the network position and the transcript size, and nothing else of the last turn. */
export function nextTurn(progress: Progress, prompt: string, queue: readonly string[]): Progress {
  const { turn, netSeq, transcriptBytes } = progress
  return { ...firstProgress(prompt), turn: turn + 1, queue, netSeq, transcriptBytes }
}
