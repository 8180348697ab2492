/**
 * How the lines an agent writes become events of ours, and what it is told. Pure: the state is plain JSON that is stored with the events, so
 * that another server goes on where one was killed.
 */
import type { PermissionAbout, RunEventBody, Tokens } from '../core/run.ts'

/** What a turn is about: of an agent's assignment the part that a driver may have to say. */
export interface Turn {
  readonly workspace: string
  readonly model: string | undefined
  readonly mcpServers: readonly {
    readonly name: string
    readonly command: string
    readonly args: readonly string[]
    readonly env: Readonly<Record<string, string>>
  }[]
  readonly asks: boolean
  readonly session: string | undefined
  readonly prompt: string
}

/** How a turn ended, in the agent's own words; the run's outcome is decided from more than that. */
export interface TurnEnd {
  readonly how: 'done' | 'refused' | 'failed' | 'canceled' | 'limit'
  readonly message: string | undefined
}

/** A question that has to be answered before it goes on. */
export interface Question {
  readonly permission: string
  readonly about: PermissionAbout
}

export interface Step<State> {
  readonly state: State
  readonly events: readonly RunEventBody[]
  /** Lines for its standard input, without their ends. */
  readonly send: readonly string[]
  readonly questions: readonly Question[]
  /** Set once it is known. */
  readonly session?: string | undefined
  /** Its own word on what it used in this turn so far. */
  readonly tokens?:
    | (Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined })
    | undefined
  /** The turn is over; the process may be ended. */
  readonly end?: TurnEnd | undefined
}

/** `State` is JSON. SECURITY: lines are hostile: parsed strictly, bounded, never an exception. */
// biome-ignore lint/suspicious/noExplicitAny: each driver knows its own state, and nobody else looks into it.
export interface Driver<State = any> {
  /** Whether it is spoken to over standard input. Where not, that is empty, and the prompt is in its command. */
  readonly talks: boolean
  begin(turn: Turn): Step<State>
  line(state: State, line: string): Step<State>
  answer(state: State, permission: string, answer: 'allow' | 'deny'): Step<State>
  cancel(state: State): Step<State>
  /** The process has ended without the turn having done so. */
  exit(state: State, exitCode: number): Step<State>
}
