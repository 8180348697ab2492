/** Agents that are given their prompt as a word of their command, and then write: lines of JSON, or of text. Nothing is said to them. */
import type { RunEventBody, Tokens } from '../core/run.ts'
import type { Driver, Step, TurnEnd } from './driver.ts'
import { type Json, readLine } from './json.ts'

/** What one agent's lines mean. `Own` is plain JSON, and small. */
export interface LineWays<Own> {
  readonly start: Own
  /** `message` is undefined for a line that is not an object of JSON. */
  read(own: Own, message: Json | undefined, line: string): Reading<Own>
  /** How the turn went, when the process has ended. */
  end(own: Own, exitCode: number): TurnEnd
}

export interface Reading<Own> {
  readonly own: Own
  readonly events?: readonly RunEventBody[] | undefined
  readonly session?: string | undefined
  readonly tokens?:
    | (Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined })
    | undefined
}

interface LineState<Own> {
  readonly own: Own
  readonly isCanceled: boolean
  readonly isOver: boolean
}

/** The end of the process is the end of the turn: what an agent says of its own success is part of `own`. */
export function lineDriver<Own>(ways: LineWays<Own>): Driver<LineState<Own>> {
  const still = (state: LineState<Own>): Step<LineState<Own>> => ({
    state,
    events: [],
    send: [],
    questions: [],
  })
  return {
    talks: false,
    begin: () => still({ own: ways.start, isCanceled: false, isOver: false }),
    line(state, line) {
      if (state.isOver) return still(state)
      const { own, events = [], session, tokens } = ways.read(state.own, readLine(line), line)
      return { ...still({ ...state, own }), events, session, tokens }
    },
    answer: still,
    cancel: (state) => still({ ...state, isCanceled: true }),
    exit(state, exitCode) {
      if (state.isOver) return still(state)
      const end: TurnEnd = state.isCanceled
        ? { how: 'canceled', message: undefined }
        : ways.end(state.own, exitCode)
      return { ...still({ ...state, isOver: true }), end }
    },
  }
}

/** What an exit code says by itself. */
export function endByExit(exitCode: number, complaint?: string): TurnEnd {
  if (exitCode === 0) return { how: 'done', message: undefined }
  return { how: 'failed', message: complaint ?? `it ended with exit code ${exitCode}` }
}
