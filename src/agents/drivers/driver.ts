/**
 * Turns the lines that an agent prints into events, and decides what is sent to it. Pure: the state is plain
 * JSON, stored with the events, so that another server can continue after a crash.
 */
import type { PermissionAbout, RunEventBody, Tokens } from '../../core/run.ts'
import type { Assignment } from '../assignment.ts'

/** A turn: the part of an assignment that a driver may have to send to the agent. */
export type Turn = Pick<Assignment, 'workspace' | 'model' | 'mcpServers' | 'asks' | 'session' | 'prompt'>

/** How a turn ended according to the agent. The run's outcome depends on more than that. */
export interface TurnEnd {
  readonly how: 'done' | 'refused' | 'failed' | 'canceled' | 'limit'
  readonly message: string | undefined
}

/** A question that has to be answered before the agent continues. */
export interface Question {
  readonly permission: string
  readonly about: PermissionAbout
}

export interface DriverStep<State> {
  readonly state: State
  readonly events: readonly RunEventBody[]
  /** Lines for its standard input, without line breaks. */
  readonly send: readonly string[]
  readonly questions: readonly Question[]
  /** Set once it is known. */
  readonly session?: string | undefined
  /** Usage of this turn so far, as the agent reports it. */
  readonly tokens?:
    | (Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined })
    | undefined
  /** The turn is over; the process may be stopped. */
  readonly end?: TurnEnd | undefined
}

/** `State` is JSON. SECURITY: lines are hostile: parsed strictly, bounded, never an exception. */
// biome-ignore lint/suspicious/noExplicitAny: only the driver itself reads its state.
export interface Driver<State = any> {
  /** Whether the agent reads its standard input. If not, the prompt is in its command. */
  readonly talks: boolean
  begin(turn: Turn): DriverStep<State>
  line(state: State, line: string): DriverStep<State>
  answer(state: State, permission: string, answer: 'allow' | 'deny'): DriverStep<State>
  cancel(state: State): DriverStep<State>
  /** The process exited before the turn was over. */
  exit(state: State, exitCode: number): DriverStep<State>
}
